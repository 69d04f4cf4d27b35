package scenarios

import (
	"time"

	"github.com/effectonce/effectonce/model"
)

// The moves of an owner that does something else with its claim than completing it.

// owner makes sure that somebody owns the key, and says who.
func (d *drawing) owner(w, k int) int {
	s := &d.keys[k]
	if s.state != model.Processing || s.claims[s.holder-1] == 0 {
		d.begin(w, k, Seen)
	}
	return max(s.holder, 1)
}

// release gives a claim back, to be visible at once, later, or after the lease's own end, and has somebody ask.
func (d *drawing) release(w, k int) {
	if !d.releases {
		return
	}
	w = d.owner(w, k)
	s := &d.keys[k]
	by := [...]time.Duration{0, 5 * d.pace(), -d.pace(), time.Hour}[d.pick(4)]
	if d.waits {
		by = min(by, d.pace())
	}
	d.add(Step{Worker: w, Verb: model.Release, Key: k + 1, By: by, Fault: d.seldom()})
	if s.state == model.Processing {
		s.end = d.at(w) + by
	}
	if by > 0 {
		d.begin(d.other(w), k, Seen)
		d.clockTo(s.end)
	}
	d.begin(d.other(w), k, Seen)
	if d.coin.Draw(d.t, "") {
		d.complete(w, k, Latest, Seen) // by the one who gave it back
	}
}

// extend prolongs a lease and has somebody ask at its first end, and at its new one.
func (d *drawing) extend(w, k int) {
	if !d.extends {
		return
	}
	w = d.owner(w, k)
	s := &d.keys[k]
	first := s.end
	lease := d.drawLease()
	d.add(Step{Worker: w, Verb: model.Extend, Key: k + 1, Lease: lease, Fault: d.seldom()})
	if s.state == model.Processing {
		s.end = max(s.end, d.at(w)+lease)
	}
	d.clockTo(first)
	d.begin(d.other(w), k, Seen)
	if d.coin.Draw(d.t, "") {
		d.clockTo(s.end)
		d.begin(d.other(w), k, Seen)
	}
}

func (d *drawing) bury(w, k int) {
	if !d.buries {
		return
	}
	w = d.owner(w, k)
	s := &d.keys[k]
	d.add(Step{Worker: w, Verb: model.Bury, Key: k + 1, Fault: d.seldom()})
	if s.state == model.Processing {
		s.state, s.end = model.Dead, 0
	}
	d.begin(d.other(w), k, Seen)
	if d.coin.Draw(d.t, "") {
		d.replay(w, k)
	}
}

// replay opens a dead letter again, and has its old owner come back with the claim from before.
func (d *drawing) replay(w, k int) {
	if !d.buries {
		return
	}
	s := &d.keys[k]
	d.add(Step{Worker: w, Verb: model.Replay, Key: k + 1})
	if s.state == model.Dead {
		s.state, s.end = model.Processing, d.at(w)
	}
	if d.coin.Draw(d.t, "") {
		d.present(k)
	}
	d.begin(d.other(w), k, Seen)
}

// seldom loses a reply now and then.
func (d *drawing) seldom() Fault {
	if d.one(5) {
		return Unseen
	}
	return Seen
}

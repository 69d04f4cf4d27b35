package scenarios

import (
	"time"

	"github.com/effectonce/effectonce/model"
)

// The moves on what handles a message in one call: an inbox, or a whole consumer.

// handle has a message applied or delivered.
func (d *drawing) handle(w, k int, r Fault) {
	s := &d.keys[k]
	step := Step{Worker: w, Verb: d.whole, Key: k + 1, Fault: r, Request: d.request(r)}
	if step.Effect = int64(1 + len(d.p.Steps)); d.whole == model.Deliver {
		step.Effect = int64(k + 1) // a message's own amount, at every delivery
	}
	d.add(step)
	if s.state == model.Absent {
		s.state, s.holder, s.updated, s.end = model.Done, w, d.at(w), d.at(w)
	}
}

// broken has the handling of a message end somewhere in the middle, of one that nobody had before if there is one: only
// then is there something to lose or to do twice. It comes again: at once, or when whoever had it has let go of it.
func (d *drawing) broken(w, k int) {
	for i := range d.keys {
		if d.keys[i].state == model.Absent {
			k = i
			break
		}
	}
	d.handle(w, k, d.lost())
	if d.coin.Draw(d.t, "") {
		d.advance([...]time.Duration{d.contract.Redelivery, d.pace()}[d.pick(2)])
	}
	d.handle(1+d.pick(len(d.p.Zones)), k, Seen)
}

// batch delivers a few messages in one call, some of them twice.
func (d *drawing) batch(w, k int) {
	if !d.batches {
		return
	}
	d.batched++
	r := Seen
	if d.coin.Draw(d.t, "") {
		r = d.lost()
	}
	for range 2 + d.pick(3) {
		d.handle(w, k, Seen)
		s := &d.p.Steps[len(d.p.Steps)-1]
		if s.Batch = d.batched; r != Seen {
			s.Fault, s.Request = r, d.request(r)
			r = Seen
		}
		k = d.pick(len(d.keys))
	}
}

// actWhole is one call of one worker in a round.
func (d *drawing) actWhole(w, k int) {
	switch d.pick(8) {
	case 0:
		d.handle(w, k, d.lost())
	case 1:
		d.handle(w, k, d.seldom())
	case 2:
		d.pruneAt(w, d.now-d.contract.Window)
	case 3:
		d.batch(w, k)
	case 4:
		if d.looksUp {
			d.add(Step{Worker: w, Verb: model.Lookup, Key: k + 1})
			return
		}
		fallthrough
	default:
		d.handle(w, k, Seen)
	}
}

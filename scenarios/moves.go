package scenarios

import (
	"time"

	"github.com/effectonce/effectonce/model"
)

func (d *drawing) move(m move, w, k int) {
	s := &d.keys[k]
	switch m {
	case moveBegin:
		d.begin(w, k, Seen)
	case moveFinish:
		d.finish(w, k, Seen)
	case moveTakeOver:
		if s.state != model.Processing {
			d.begin(w, k, Seen)
		}
		d.clockTo(s.end)
		d.begin(d.other(s.holder), k, Seen)
		if d.coin.Draw(d.t, "") {
			d.present(k)
		}
	case movePresent:
		d.present(k)
	case moveForget:
		d.forget(w, k)
	case moveRedeliver:
		if s.state == model.Processing {
			d.finish(w, k, Seen)
		}
		d.begin(w, k, Seen)
	case moveLoseBegin:
		if d.whole != "" {
			d.broken(w, k)
			return
		}
		d.begin(w, k, d.lost())
		d.begin(w, k, Seen)
	case moveLoseFinish:
		d.finish(w, k, d.lost())
		d.finish(s.holder, k, Seen)
	case movePrune:
		d.prune(w, k)
	case moveClock:
		d.clock(k)
	case moveLookup:
		d.look(w, k)
	case moveCrash:
		d.add(Step{Worker: w, Verb: CrashStep})
		for i := range d.keys {
			d.keys[i].claims[w-1] = 0
		}
	case moveSkew:
		if d.forgetsByItself() && !d.server {
			return
		}
		d.skew[w-1] = [...]time.Duration{0, time.Second, -time.Second, time.Hour, -time.Hour}[d.pick(5)]
		d.add(Step{Worker: w, Verb: SkewStep, By: d.skew[w-1]})
	case moveRelease:
		d.release(w, k)
	case moveExtend:
		d.extend(w, k)
	case moveBury:
		d.bury(w, k)
	case moveReplay:
		d.replay(w, k)
	case moveCancel:
		d.cancel(w, k)
	case moveStorm:
		d.storm(w, k)
	case moveBatch:
		d.batch(w, k)
	}
}

// look reads a record before and after somebody else changed it: what a reader keeps of the first reading is old.
func (d *drawing) look(w, k int) {
	if !d.looksUp {
		return
	}
	read := Step{Worker: w, Verb: model.Lookup, Key: k + 1}
	d.add(read)
	switch other := d.other(w); d.pick(6) {
	case 0:
		d.begin(other, k, Seen)
	case 1:
		d.finish(other, k, Seen)
	case 2:
		d.clockTo(d.keys[k].end)
		d.begin(other, k, Seen)
	case 3:
		d.release(other, k)
	case 4:
		d.forget(other, k)
	default:
		return
	}
	d.add(read)
}

// cancel makes a call whose context has ended before it begins.
func (d *drawing) cancel(w, k int) {
	switch s := &d.keys[k]; d.pick(4) {
	case 1:
		if s.state == model.Processing {
			w = s.holder
		}
		d.complete(w, k, Latest, Seen)
	case 2:
		if d.prunes {
			d.add(Step{Worker: w, Verb: model.Prune, By: d.now - d.at(w)})
			break
		}
		fallthrough
	case 3:
		if d.looksUp {
			d.add(Step{Worker: w, Verb: model.Lookup, Key: k + 1})
			break
		}
		fallthrough
	default:
		if d.whole != "" {
			d.handle(w, k, Seen)
			break
		}
		d.add(Step{Worker: w, Verb: model.Begin, Key: k + 1, Lease: d.drawLease()})
	}
	d.p.Steps[len(d.p.Steps)-1].Cancelled = true
}

// storm takes one message over again and again: what counts claims may have an end.
func (d *drawing) storm(w, k int) {
	s := &d.keys[k]
	if s.state == model.Done {
		d.forget(w, k)
	}
	for range 3 + d.pick(10) {
		if s.state != model.Processing {
			d.begin(w, k, Seen)
			continue
		}
		d.advance(s.end - d.now)
		d.begin(d.other(s.holder), k, Seen)
	}
	d.present(k)
}

// crowd has each of many messages claimed and about half of them completed; then their window may pass.
func (d *drawing) crowd() {
	for k := range d.keys {
		w := 1 + d.pick(len(d.p.Zones))
		d.begin(w, k, Seen)
		if d.coin.Draw(d.t, "") {
			d.finish(w, k, Seen)
		}
	}
	if d.coin.Draw(d.t, "") {
		d.clockTo(d.keys[0].updated + d.contract.Window)
		d.pruneAt(1, d.now-d.contract.Window)
	}
}

// startElsewhere lets some plans begin at an instant that clocks, calendars and columns trip over.
func (d *drawing) startElsewhere() {
	if d.contract.Clock != model.CallerClock || !d.one(8) {
		return
	}
	landmark := landmarks()[d.pick(len(landmarks()))]
	early := [...]time.Duration{0, 10 * time.Second, 30 * time.Minute, 12 * time.Hour}[d.pick(4)]
	d.advance(landmark.Add(-early).Sub(epoch))
}

// landmarks are the hours in which Europe and North America set their clocks back, the ends of a year and of a
// February with 29 days, and the second after which 32 bits of seconds are spent. The epoch itself lies an hour
// before Europe sets its clocks forward.
func landmarks() []time.Time {
	return []time.Time{
		time.Date(2031, time.October, 26, 1, 0, 0, 0, time.UTC), time.Date(2031, time.November, 2, 6, 0, 0, 0, time.UTC),
		time.Date(2032, time.January, 1, 0, 0, 0, 0, time.UTC), time.Date(2032, time.February, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2038, time.January, 19, 3, 14, 8, 0, time.UTC),
	}
}

// other is a worker that is not the given one.
func (d *drawing) other(w int) int {
	n := len(d.p.Zones)
	return 1 + (max(w, 1)+d.pick(n-1))%n
}

func (d *drawing) lost() Fault {
	if d.wire && d.coin.Draw(d.t, "") {
		return [...]Fault{ReplyLost, ReplyLost, RequestLost, HalfRequest, HalfReply, ConnectionCut}[d.pick(6)]
	}
	return Unseen
}

// request picks which request of a call loses its reply. Most calls are one, some stores need several.
func (d *drawing) request(r Fault) int {
	switch {
	case !r.onTheWire():
		return 0
	case d.whole == "" && d.coin.Draw(d.t, ""):
		return 1
	}
	return 1 + d.pick(5) // what handles a message in one call asks for several things, and each may be the last
}

func (d *drawing) begin(w, k int, r Fault) {
	if d.whole != "" {
		d.handle(w, k, r)
		return
	}
	s := &d.keys[k]
	step := Step{Worker: w, Verb: model.Begin, Key: k + 1, Lease: d.drawLease(), Fault: r, Request: d.request(r)}
	if d.rebegins && d.coin.Draw(d.t, "") {
		if again := d.lastBegin(w, k); again > 0 && d.coin.Draw(d.t, "") {
			step.Nonce = again
		} else {
			d.nonce++
			step.Nonce = d.nonce
		}
		step.Verb = model.BeginAs
	}
	d.add(step)
	if s.state == model.Absent || s.state == model.Processing && d.at(w) >= s.end {
		s.state, s.holder, s.end = model.Processing, w, d.at(w)+step.Lease
		if r == Seen {
			s.claims[w-1]++
		}
	}
}

// lastBegin is the nonce of the worker's latest claim attempt on a key.
func (d *drawing) lastBegin(w, k int) int {
	for i := len(d.p.Steps) - 1; i >= 0; i-- {
		if s := &d.p.Steps[i]; s.Worker == w && s.Key == k+1 && s.Verb == model.BeginAs {
			return s.Nonce
		}
	}
	return 0
}

// finish completes a key: by its holder, if it has one.
func (d *drawing) finish(w, k int, r Fault) {
	s := &d.keys[k]
	if s.state == model.Absent {
		d.begin(w, k, Seen)
	}
	if s.state == model.Processing {
		w = s.holder
	}
	w = max(w, 1)
	d.complete(w, k, Latest, r)
	if s.state == model.Processing {
		s.state, s.updated = model.Done, d.at(w)
	}
}

func (d *drawing) complete(w, k int, which Which, r Fault) {
	if d.whole != "" {
		d.handle(w, k, r)
		return
	}
	step := Step{Worker: w, Verb: d.keys[k].style, Key: k + 1, Fault: r, Request: d.request(r)}
	if step.Verb != model.Complete {
		step.Claim = which
	}
	switch step.Verb {
	case model.CommitEffect:
		step.Effect = int64(1 + len(d.p.Steps))
	case model.CompleteResult:
		step.Result = [...]Bytes{ZeroBytes, NilBytes, EmptyBytes, NullBytes, InvalidBytes, ManyBytes}[d.pick(6)]
	}
	d.add(step)
}

// present has somebody who once held a claim of the key come back with it.
func (d *drawing) present(k int) {
	s := &d.keys[k]
	w := 1 + d.pick(len(d.p.Zones))
	for range d.p.Zones {
		if s.claims[w-1] > 0 {
			break
		}
		w = w%len(d.p.Zones) + 1
	}
	which := [...]Which{Latest, Previous, First, Latest, Previous, First, Handed, NoClaim}[d.pick(8)]
	switch {
	case which == Handed:
		w = d.other(max(s.holder, 1))
	case s.claims[w-1] < 2 && which != NoClaim:
		which = Latest
	}
	switch step := (Step{Worker: w, Key: k + 1, Claim: which}); {
	case d.releases && d.one(6):
		step.Verb = model.Release
		d.add(step)
	case d.extends && d.one(6):
		step.Verb, step.Lease = model.Extend, d.drawLease()
		d.add(step)
	case d.buries && d.one(6):
		step.Verb = model.Bury
		d.add(step)
	default:
		d.complete(w, k, which, Seen)
	}
}

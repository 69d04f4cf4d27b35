package scenarios

import (
	"time"

	"github.com/effectonce/effectonce/model"
)

// The moves of the time, and of what is forgotten with it.

// clockTo moves the time to an edge: exactly there, one unit before or behind, or somewhere off the unit.
func (d *drawing) clockTo(edge time.Duration) {
	off := [...]time.Duration{0, 0, -d.unit(), d.unit(), time.Second}
	if d.server { // what lies closer to the edge than the clocks agree is not judged
		off = [...]time.Duration{d.clear(), d.clear(), -d.clear(), 2 * d.clear(), d.clear()}
	}
	d.advance(edge - d.now + off[d.pick(len(off))])
}

func (d *drawing) advance(by time.Duration) {
	if by == 0 || by < 0 && d.forgetsByItself() || d.waits && d.now+by > d.waitsAtMost() {
		return
	}
	d.now += by
	d.add(Step{Verb: ClockStep, By: by})
}

// forgetsByItself: what a store forgets by the time alone it may forget at anybody's call, for every key. Whose time
// that was cannot be told unless there is one.
func (d *drawing) forgetsByItself() bool {
	return d.contract.Clock == model.ServerClock || d.contract.Retention == model.ByItself || d.contract.LeaseIsRecord
}

func (d *drawing) clock(k int) {
	s := &d.keys[k]
	switch d.pick(6) {
	case 0:
		if d.whole == model.Deliver && d.coin.Draw(d.t, "") {
			d.advance(d.contract.Redelivery) // by then the message is free for whoever gets it, or it is lost
			return
		}
		d.advance(d.pace())
	case 1:
		d.clockTo(s.end)
	case 2:
		d.clockTo(s.updated + d.contract.Window)
	case 3:
		d.advance((s.end - d.now) / 2 / d.unit() * d.unit())
	case 4:
		d.advance(-time.Second)
	case 5:
		if !d.server {
			d.advance(time.Duration(1 + d.pick(64))) // off the unit, where the unit is not 1 ns
		}
	}
}

// forget lets the window of a key's record pass, or almost, and prunes.
func (d *drawing) forget(w, k int) {
	s := &d.keys[k]
	if s.state != model.Done || d.one(4) {
		d.finish(w, k, Seen)
	}
	if d.one(4) || d.waits && d.contract.Window > d.waitsAtMost() { // forgotten, and perhaps claimed again, all at one instant
		d.pruneAt(w, s.updated+max(d.unit(), d.clear()))
	} else {
		d.clockTo(s.updated + d.contract.Window)
		d.pruneAt(w, d.now-d.contract.Window)
	}
	if d.coin.Draw(d.t, "") {
		d.begin(w, k, Seen)
	}
}

// prune cuts off somewhere: at the window, at a record's own age, or at once.
func (d *drawing) prune(w, k int) {
	s := &d.keys[k]
	switch d.pick(4) {
	case 0:
		d.pruneAt(w, d.now-d.contract.Window)
	case 1:
		d.pruneAt(w, s.updated-d.clear())
	case 2:
		d.pruneAt(w, s.updated+max(d.unit(), d.clear()))
	case 3:
		d.pruneAt(w, d.now)
	}
}

func (d *drawing) pruneAt(w int, cutOff time.Duration) {
	if !d.prunes {
		return
	}
	d.add(Step{Worker: w, Verb: model.Prune, By: cutOff - d.at(w)})
	for k := range d.keys {
		if s := &d.keys[k]; s.state == model.Done && s.updated < cutOff {
			s.state = model.Absent
		}
	}
}

// How fast plans go where the server's clock decides.

// pace is a short while: a second, or where somebody has to wait for it, a few times what the clocks may differ by.
func (s surface) pace() time.Duration {
	if !s.waits {
		return time.Second
	}
	return max(3*s.contract.ClockError, s.contract.MinLease)
}

// clear is how far from an edge it is certain on which side of it one is.
func (s surface) clear() time.Duration {
	if !s.server {
		return 0
	}
	return s.contract.ClockError + s.contract.Precision + slackOfCalls
}

// slackOfCalls is what calls take until they are answered, on a machine that has other things to do.
const slackOfCalls = 30 * time.Millisecond

// waitsAtMost bounds the real time that one plan waits.
func (s surface) waitsAtMost() time.Duration { return 8 * s.pace() }

package scenarios

import (
	"time"

	"github.com/effectonce/effectonce/model"
)

// realPlan draws rounds in which everyone calls at once: all begin one message, an owner finishes while others wait
// at its lease's end, a prune runs beside completions. Few keys, so that calls meet.
func (d *drawing) realPlan() *Plan {
	d.p = &Plan{Tier: Real, Zones: make([]int, 3+d.pick(2))}
	d.skew = make([]time.Duration, len(d.p.Zones))
	keys := d.drawKeys()
	d.p.Keys = keys[:min(len(keys), 2)]
	d.keys = make([]sketch, len(d.p.Keys))
	for k := range d.keys {
		d.keys[k] = sketch{claims: make([]int, len(d.p.Zones)), style: d.drawStyle()}
	}
	for range 3 + d.pick(5) {
		d.round(d.pick(len(d.keys)))
	}
	return d.p
}

// round lets the time pass to an edge of the round's key, or not, and has every worker do something.
func (d *drawing) round(hot int) {
	s := &d.keys[hot]
	switch d.pick(5) {
	case 0, 1:
		d.clockTo(s.end)
	case 2:
		d.clockTo(s.updated + d.contract.Window)
	case 3:
		d.advance(d.pace())
	}
	if d.one(8) {
		w := 1 + d.pick(len(d.p.Zones))
		d.add(Step{Worker: w, Verb: CrashStep})
	}
	for range 1 + d.pick(3) {
		for w := 1; w <= len(d.p.Zones); w++ {
			k := hot
			if d.one(6) {
				k = d.pick(len(d.keys))
			}
			d.act(w, k)
		}
	}
}

// act is one call of one worker in a round.
func (d *drawing) act(w, k int) {
	s := &d.keys[k]
	if d.whole != "" {
		d.actWhole(w, k)
		return
	}
	switch d.pick(12) {
	case 0, 1, 2, 3:
		d.begin(w, k, d.seldom())
	case 4, 5, 6:
		d.complete(w, k, Latest, d.seldom())
		if s.state == model.Processing && s.holder == w {
			s.state, s.updated = model.Done, d.at(w)
		}
	case 7:
		d.pruneAt(w, d.now-d.contract.Window)
	case 8:
		d.pruneAt(w, d.now)
	case 9:
		d.present(k)
	case 10:
		d.begin(w, k, d.lost())
	case 11:
		if d.looksUp {
			d.add(Step{Worker: w, Verb: model.Lookup, Key: k + 1})
		}
	}
}

package scenarios

import (
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// named is one plan that every run begins with, whatever is drawn after it: what a team would write by hand first.
type named struct {
	name string
	plan *Plan
}

// script writes a plan by hand, with messages of its own for each name.
type script struct {
	surface
	p     *Plan
	key   int  // that the next steps concern, from 1
	byKey bool // it is finished by key, not by claim
	long  bool // its leases do not end while it runs
}

func (s surface) named() []named {
	all := []named{
		{"a duplicate delivery is handled once", s.write(Stepped, 3, s.duplicates)},
		{"no message is taken for another, and all are forgotten", s.write(Stepped, 2, s.apart)},
	}
	if s.whole == "" && !s.contract.NoLease {
		all = append(all,
			named{"a handler that fails twice is tried a third time", s.write(Stepped, 1, s.failsTwice)},
			named{"a crash holds the message until its lease ends", s.write(Stepped, 3, s.crashes)})
	}
	if s.server && s.whole == "" {
		all = append(all, named{"a caller's clock has no say", s.write(Stepped, 3, s.skewed)})
	}
	if s.prunes && s.contract.Retention == model.UntilPruned {
		all = append(all, named{"prune defines the window", s.write(Stepped, 2, s.pruneDefinesTheWindow)})
	}
	return all
}

func (s surface) write(tier Tier, workers int, steps func(*script)) *Plan {
	w := &script{surface: s, key: 1, p: &Plan{Tier: tier, Zones: make([]int, workers), Keys: acceptedKeys(s.contract, 1)}}
	steps(w)
	return w.p
}

// duplicates: one delivery, and the same message twice more.
func (s surface) duplicates(w *script) {
	w.begin(1)
	w.finish(1)
	w.begin(2)
	w.begin(3)
}

// sixAtOnce: all claim in one round; one is to win, and finishes; then the broker brings it to all of them again. Then
// they meet on one new message after the other: what lies between looking and acting may be a few nanoseconds.
func (s surface) sixAtOnce(w *script) {
	meetings := meetingsInProcess
	if s.wire {
		meetings = meetingsOnTheWire
	}
	w.p.Keys, w.long = acceptedKeys(s.contract, 1+meetings), true
	for key := 2; key <= len(w.p.Keys); key++ {
		w.key = key
		for worker := range w.p.Zones {
			w.begin(worker + 1)
		}
		apart := max(s.contract.Precision, time.Microsecond)
		if s.waits {
			apart = time.Microsecond
		}
		w.clock(apart)
	}
	w.key, w.long = 1, false
	for worker := range w.p.Zones {
		w.begin(worker + 1)
		w.finish(worker + 1) // who holds no claim has none to present; by key, anybody may try
	}
	w.clock(w.lease())
	for worker := range w.p.Zones {
		w.begin(worker + 1)
	}
}

// failsTwice: a failed handler leaves the lease alone, and one tick is exactly the lease.
func (s surface) failsTwice(w *script) {
	w.begin(1)
	w.clock(w.lease() + s.clear())
	w.begin(1)
	w.clock(w.lease() + s.clear())
	w.begin(1)
	w.finish(1)
	w.begin(1)
}

// crashes: refused until the lease's end, then claimed as the second attempt, and never again once it is DONE.
func (s surface) crashes(w *script) {
	w.begin(1)
	w.add(Step{Worker: 1, Verb: CrashStep})
	w.clock(w.lease() - max(s.contract.Precision, s.clear()))
	w.begin(2)
	w.clock(max(s.contract.Precision, 2*s.clear()))
	w.begin(2)
	w.finish(2)
	for range 3 {
		w.clock(w.lease())
		w.begin(3)
	}
}

// skewed: the server's clock decides, so that claims of callers who are an hour off are held as long as any, and no
// longer.
func (s surface) skewed(w *script) {
	w.p.Keys = acceptedKeys(s.contract, 2)
	for i, skew := range []time.Duration{time.Hour, -time.Hour} {
		w.key = i + 1
		w.add(Step{Worker: 1, Verb: SkewStep, By: skew})
		w.add(Step{Worker: 2, Verb: SkewStep, By: -skew})
		w.begin(1)
		w.begin(2)
		w.begin(3)
		w.clock(w.lease() + 2*s.clear())
		w.begin(3)
		w.begin(2)
		w.finish(3)
		w.begin(1)
	}
}

// pruneDefinesTheWindow counts from the completion: with the instant of the claim it would be over earlier.
func (s surface) pruneDefinesTheWindow(w *script) {
	window := s.contract.Window
	if s.waits { // nobody waits for days: the cut-off lies where the window would end
		window = 0
	}
	w.begin(1)
	w.clock(w.pace())
	w.finish(1)
	w.clock(window + s.clear())
	w.add(Step{Worker: 2, Verb: model.Prune, By: -window - 2*s.clear()})
	w.begin(2)
	w.clock(max(s.contract.Precision, s.clear()))
	w.add(Step{Worker: 2, Verb: model.Prune, By: -window})
	w.begin(2)
}

// apart handles a message of every confusable key, then finishes the first of each family and asks for the second: in
// so many plans as a run on a server has, few would be drawn. At last all are finished and forgotten at once, which are
// more than a store may remove in one statement.
func (s surface) apart(w *script) {
	w.p.Keys = nil
	var firsts []int
	for _, family := range families() {
		first := len(w.p.Keys)
		for _, k := range family {
			if accepts(s.contract, k) && !slices.Contains(w.p.Keys, k) {
				w.p.Keys = append(w.p.Keys, k)
			}
		}
		if len(w.p.Keys) > first+1 {
			firsts = append(firsts, first)
		}
	}
	w.long = true // these are many calls, and no lease is to end between them
	each := func(key int, do func(worker int)) {
		from := len(w.p.Steps)
		do(1)
		for i := from; i < len(w.p.Steps); i++ {
			w.p.Steps[i].Key = key + 1
		}
	}
	for key := range w.p.Keys {
		each(key, w.begin)
	}
	for _, key := range firsts {
		each(key, w.finish)
		each(key+1, w.begin)
	}
	for key := range w.p.Keys {
		if !slices.Contains(firsts, key) {
			each(key, w.finish)
		}
	}
	if s.prunes && !s.waits {
		w.clock(s.contract.Window + s.clear() + s.contract.Precision)
		w.add(Step{Worker: 1, Verb: model.Prune, By: -s.contract.Window})
	}
}

// In a process a meeting takes microseconds, and few of them are close enough.
const (
	meetingsInProcess = 1000
	meetingsOnTheWire = 20
)

func (w *script) add(s Step) { w.p.Steps = append(w.p.Steps, s) }

func (w *script) clock(by time.Duration) {
	if by > 0 {
		w.add(Step{Verb: ClockStep, By: by})
	}
}

// lease is one that the store can keep, no whole number of seconds if it keeps less, and short where it is waited for.
func (w *script) lease() time.Duration {
	lease := 30*time.Second + 900*time.Millisecond
	switch {
	case w.long:
		lease = time.Hour
	case w.waits:
		lease = w.pace()
	}
	return max(lease-lease%w.contract.Precision, w.contract.MinLease)
}

func (w *script) begin(worker int) {
	if w.whole != "" {
		w.call(worker, w.whole)
		return
	}
	w.call(worker, model.Begin)
}

// finish completes in the strongest way that the store has.
func (w *script) finish(worker int) {
	switch {
	case w.whole != "":
	case w.commits && !w.byKey:
		w.call(worker, model.CommitEffect)
	case w.fences && !w.byKey:
		w.call(worker, model.CompleteClaim)
	default:
		w.call(worker, model.Complete)
	}
}

// call makes one call on the script's key, with what an operation of its kind needs.
func (w *script) call(worker int, kind model.Kind) {
	step := Step{Worker: worker, Verb: kind}
	if kind.Keyed() {
		step.Key = w.key
	}
	switch kind {
	case model.Begin, model.Extend:
		step.Lease = w.lease()
	case model.BeginAs:
		step.Lease, step.Nonce = w.lease(), len(w.p.Steps)+1
	case model.CommitEffect, model.ApplyOnce:
		step.Effect = int64(1 + len(w.p.Steps))
	case model.Deliver:
		step.Effect = int64(w.key) // a message's own amount, at every delivery
	}
	w.add(step)
}

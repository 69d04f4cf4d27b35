package scenarios

import (
	"slices"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// The sweep is a plan for every operation in every state: there it meets every fault, each on a message of its own.
// Drawn plans would come to all of that only in many more than a run on a server has.

// place is an operation on a record in a state, and how to come there.
type place struct {
	kind  model.Kind
	state model.State
}

func (s surface) sweep() []*Plan {
	var all []*Plan
	for _, at := range s.places() {
		all = append(all, s.write(Stepped, 2, func(w *script) { s.meetFaults(w, at) }))
	}
	if s.batches {
		all = append(all, s.write(Stepped, 2, s.breakBatches))
	}
	return all
}

// faults are those that there are here. Without a wire a reply can be lost in process alone.
func (s surface) faults() []Fault {
	if !s.wire {
		return []Fault{Unseen}
	}
	return wireFaults()
}

// named is how a history names a fault of a plan.
func (f Fault) named() string {
	if f == Unseen {
		return checker.AnswerUnseen
	}
	return f.kind().String()
}

// places are all operations in all states that they can be made in.
func (s surface) places() []place {
	states := []model.State{model.Absent, model.Processing, model.Done}
	if s.buries {
		states = append(states, model.Dead)
	}
	var all []place
	for _, kind := range s.kinds {
		for _, state := range states {
			if s.reachable(kind, state) {
				all = append(all, place{kind, state})
			}
		}
	}
	return all
}

func (s surface) reachable(kind model.Kind, state model.State) bool {
	switch {
	case kind == model.Prune && (state == model.Absent || s.contract.Retention == model.ByItself):
		return false // there is nothing for it to do, so that it need not ask
	case s.whole == model.ApplyOnce:
		return state == model.Absent || state == model.Done
	case kind.Fenced() && state == model.Absent: // with a claim from before
		return s.contract.Retention == model.UntilPruned
	case s.whole == model.Deliver && state == model.Processing:
		return s.wire && kind == model.Deliver // only a fault leaves a delivery unfinished, and it may not have begun
	}
	return true
}

// broken is a fault at one request of a call.
type broken struct {
	fault   Fault
	request int
}

// requestsSwept is how many requests of a call are broken in turn, where a call is more than one: a transaction, or all
// that a consumer does about a message.
const requestsSwept = 4

func (s surface) breaks(kind model.Kind) []broken {
	requests := 1
	switch kind {
	case model.CommitEffect, model.ApplyOnce, model.Deliver:
		requests = requestsSwept
	}
	var all []broken
	for _, f := range s.faults() {
		if !f.onTheWire() {
			all = append(all, broken{fault: f})
			continue
		}
		for r := range requests {
			all = append(all, broken{f, r + 1})
		}
	}
	return all
}

// meetFaults brings one message for each fault to the state and makes the call there, asks once more, and lets another
// worker take what is left.
func (s surface) meetFaults(w *script, at place) {
	breaks := s.breaks(at.kind)
	w.p.Keys = acceptedKeys(s.contract, len(breaks))
	w.byKey = at.kind == model.Complete
	for i, b := range breaks {
		w.key = i + 1
		s.reach(w, at)
		w.call(1, at.kind)
		w.breakOff(b)
		w.call(1, at.kind)
		s.pickUp(w)
	}
}

// breakOff breaks the call that was written last.
func (w *script) breakOff(b broken) {
	last := &w.p.Steps[len(w.p.Steps)-1]
	last.Fault, last.Request = b.fault, b.request
}

// pickUp lets another worker take what was left, once it may.
func (s surface) pickUp(w *script) {
	w.begin(2)
	w.clock(w.lease() + s.clear())
	w.begin(2)
	w.finish(2)
}

// breakBatches breaks a call with several messages off at each of its first requests, and has the broker bring all of
// them again.
func (s surface) breakBatches(w *script) {
	const size, requests = 2, 2 * requestsSwept
	var breaks []broken
	for _, f := range s.faults() {
		for r := range requests {
			if breaks = append(breaks, broken{f, r + 1}); !f.onTheWire() {
				breaks[len(breaks)-1].request = 0
				break
			}
		}
	}
	w.p.Keys = acceptedKeys(s.contract, size*len(breaks))
	for i, b := range breaks {
		for k := range size {
			w.key = size*i + k + 1
			w.begin(1)
			if w.p.Steps[len(w.p.Steps)-1].Batch = i + 1; k == 0 {
				w.breakOff(b)
			}
		}
		for k := range size {
			w.key = size*i + k + 1
			s.pickUp(w)
		}
	}
}

func (s surface) reach(w *script, at place) {
	if at.state == model.Absent && !at.kind.Fenced() {
		return
	}
	w.begin(1)
	switch {
	case s.whole == model.Deliver && at.state == model.Processing:
		last := &w.p.Steps[len(w.p.Steps)-1]
		last.Fault, last.Request = ReplyLost, 2 // it is claimed, and then its answer is lost
	case at.state == model.Absent:
		w.finish(1)
		w.clock(s.contract.Precision + s.clear())
		w.add(Step{Worker: 1, Verb: model.Prune})
	case at.state == model.Done:
		w.finish(1)
	case at.state == model.Dead:
		w.call(1, model.Bury)
	}
	if at.kind == model.Prune && at.state == model.Done {
		w.clock(s.contract.Precision + s.clear())
	}
}

// coverage holds where faults met operations against where they could.
func (s surface) coverage(met map[checker.Place]int) *checker.Coverage {
	c := &checker.Coverage{}
	for _, at := range s.places() {
		row := checker.CoverageRow{Operation: at.kind, State: at.state, Of: len(s.faults())}
		for _, f := range s.faults() {
			p := checker.Place{Operation: at.kind, State: at.state, Fault: f.named()}
			if c.Places++; met[p] > 0 {
				c.Covered++
				row.Covered++
			} else {
				c.Missing = append(c.Missing, p)
			}
		}
		c.Rows = append(c.Rows, row)
	}
	slices.SortFunc(c.Missing, checker.Place.Compare)
	return c
}

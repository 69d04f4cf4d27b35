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

// meetFaults brings one message for each fault to the state and makes the call there, asks once more, and lets another
// worker take what is left.
func (s surface) meetFaults(w *script, at place) {
	w.p.Keys = acceptedKeys(s.contract, len(s.faults()))
	w.byKey = at.kind == model.Complete
	for i, fault := range s.faults() {
		w.key = i + 1
		s.reach(w, at)
		w.call(1, at.kind)
		last := &w.p.Steps[len(w.p.Steps)-1]
		if last.Fault = fault; fault.onTheWire() {
			last.Request = 1
		}
		w.call(1, at.kind)
		w.begin(2)
		w.clock(w.lease() + s.clear())
		w.begin(2)
		w.finish(2)
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
		for _, f := range s.faults() {
			p := checker.Place{Operation: at.kind, State: at.state, Fault: f.named()}
			if c.Places++; met[p] > 0 {
				c.Covered++
			} else {
				c.Missing = append(c.Missing, p)
			}
		}
	}
	slices.SortFunc(c.Missing, checker.Place.Compare)
	return c
}

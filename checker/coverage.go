package checker

import (
	"cmp"
	"slices"

	"github.com/effectonce/effectonce/model"
)

// Place is where a fault met a store: an operation, on a record in a state.
type Place struct {
	Operation model.Kind  `json:"operation"`
	State     model.State `json:"state"` // empty: absent
	Fault     string      `json:"fault"`
}

// Compare orders places.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Operation, q.Operation), cmp.Compare(p.State, q.State), cmp.Compare(p.Fault, q.Fault))
}

// AnswerUnseen is the fault of an answer that was lost in process.
const AnswerUnseen = "answer unseen"

// Coverage says which places a run came to, of those that there are for its store. A fault that changed nothing has
// covered nothing.
type Coverage struct {
	Places  int     `json:"places"`
	Covered int     `json:"covered"`
	Missing []Place `json:"missing,omitempty"`
	// Rows are the table: how many of the faults an operation met in a state.
	Rows []CoverageRow `json:"rows,omitempty"`
}

// CoverageRow is one operation in one state.
type CoverageRow struct {
	Operation model.Kind  `json:"operation"`
	State     model.State `json:"state"`
	Covered   int         `json:"covered"`
	Of        int         `json:"of"`
}

// state is what the record was, as a place names it. Of a message that a consumer was delivered and did not finish
// nobody knows whether it has begun: it is in flight.
func state(before model.Possible, e *model.Event) model.State {
	inFlight := func(s model.KeyState) bool { return s.State == model.Processing }
	if e.Kind == model.Deliver && slices.ContainsFunc(before, inFlight) {
		return model.Processing
	}
	return before[0].State
}

// met notes where a fault met an operation.
func (out *Judgement) met(e *model.Event, before model.State, faults []model.Fault) {
	switch {
	case e.Fault > 0:
		out.Met = append(out.Met, Place{e.Kind, before, faults[e.Fault-1].Name})
	case e.Unseen:
		out.Met = append(out.Met, Place{e.Kind, before, AnswerUnseen})
	}
}

package model_test

import (
	"slices"
	"testing"

	"github.com/effectonce/effectonce/model"
)

// breaches has one wrong history per promise that Step can break: it is explained once exactly this promise, or
// one of those in also, may be broken.
var breaches = []struct {
	id       model.InvariantID
	also     []model.InvariantID
	contract model.Contract
	calls    func() []*call
}{
	{id: model.ExclusiveClaim, also: []model.InvariantID{model.NoEarlySteal}, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(0).handle(2).claimed(2))
	}},
	{id: model.ExclusiveClaim, calls: func() []*call { // both are the first, as with GET then SET
		return calls(begin(0).claimed(1), begin(0).handle(2).claimed(1))
	}},
	{id: model.NoEarlySteal, also: []model.InvariantID{model.ExclusiveClaim}, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(29*sec).claimed(2))
	}},
	{id: model.TakeoverAfterExpiry, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(30*sec).not(processing(1, 30*sec, 0)))
	}},
	{id: model.NoEarlySteal, calls: func() []*call { // the lease that is told is too short, and kept
		return calls(begin(0).claimed(1).until(20*sec), begin(10*sec).not(processing(1, 20*sec, 0)), begin(20*sec).claimed(2))
	}},
	{id: model.TakeoverAfterExpiry, calls: func() []*call { // the lease that is told is too long, and kept
		return calls(begin(0).claimed(1).until(40*sec), begin(35*sec).not(processing(1, 40*sec, 0)), begin(40*sec).claimed(2))
	}},
	{id: model.AttemptsCountClaims, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(30*sec).claimed(1), begin(60*sec).claimed(2))
	}},
	{id: model.DoneStaysDone, also: []model.InvariantID{model.RememberedInWindow}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, sec).ok(), begin(2*sec).claimed(1))
	}},
	{id: model.DoneStaysDone, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, sec).ok(), begin(40*sec).claimed(2))
	}},
	{id: model.StaleClaimRefused, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(30*sec).claimed(2), completeClaim(1, 31*sec).ok(), begin(32*sec).not(done(2, 31*sec)))
	}},
	{id: model.StaleClaimRefused, calls: func() []*call { // a stale Extend moves the new owner's lease
		return calls(begin(0).claimed(1), begin(30*sec).claimed(2), extend(1, 50*sec).not(processing(2, 80*sec, 0)),
			begin(60*sec).not(processing(2, 80*sec, 0)))
	}},
	{id: model.StaleClaimRefused, calls: func() []*call { // a stale Release gives the new owner's claim away
		return calls(begin(0).claimed(1), begin(30*sec).claimed(2), release(1, 31*sec, 31*sec).ok(), begin(32*sec).claimed(3))
	}},
	{id: model.StaleClaimRefused, calls: func() []*call {
		return calls(begin(0).claimed(1), begin(30*sec).claimed(2), bury(1, 31*sec).ok(), begin(32*sec).not(dead(2)))
	}},
	{id: model.StaleClaimRefused, contract: model.Contract{RefusesLate: true}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, 30*sec).ok(), begin(31*sec).not(done(1, 30*sec)))
	}},
	{id: model.StaleClaimRefusedAfterForgetting, also: []model.InvariantID{model.StaleClaimRefused}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, sec).ok(), prune(2*sec).count(1), begin(3*sec).claimed(1), completeClaim(1, 4*sec).ok())
	}},
	{id: model.PruneOnlyOldDone, also: []model.InvariantID{model.DoneStaysDone, model.RememberedInWindow}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok(), prune(5*sec).count(1), begin(6*sec).claimed(1))
	}},
	{id: model.PruneOnlyOldDone, also: []model.InvariantID{model.ExclusiveClaim}, calls: func() []*call { // it takes a claim away
		return calls(begin(0).claimed(1), prune(9*sec).count(1), begin(6*sec).claimed(1))
	}},
	{id: model.RememberedInWindow, also: []model.InvariantID{model.PruneOnlyOldDone, model.DoneStaysDone}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok(), prune(3*sec).count(1), begin(6*sec).claimed(1))
	}},
	{id: model.ForgottenAfterWindow, also: []model.InvariantID{model.TypedAnswers}, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, sec).ok(), prune(2*sec).count(1), begin(3*sec).not(done(1, sec)))
	}},
	{id: model.AtMostOneEffect, calls: func() []*call {
		return calls(begin(0).claimed(1), commit(1, sec, 1).ok(), commit(1, 2*sec, 1).ok())
	}},
	{id: model.NoLostEffect, calls: func() []*call {
		return calls(begin(0).claimed(1), commit(1, sec, 0).ok())
	}},
	{id: model.TypedAnswers, calls: func() []*call { return calls(begin(0).failed(), begin(sec).claimed(1)) }},
	{id: model.TypedAnswers, calls: func() []*call {
		return calls(begin(0).claimed(1), completeClaim(1, sec).failed(), begin(2*sec).not(done(1, sec)))
	}},
}

func explained(rules *model.Rules, h *model.History) bool {
	now := model.Fresh()
	events := h.Events()
	for i := range events {
		now = now.Next(rules, &events[i])
	}
	return len(now) > 0
}

func TestABreachIsExplainedByExcusingExactlyItsPromise(t *testing.T) {
	for _, b := range breaches {
		h := history(b.contract, b.calls())
		t.Run(string(b.id), func(t *testing.T) {
			if err := h.Validate(); err != nil {
				t.Fatal(err)
			}
			if explained(model.NewRules(h.Contract), h) {
				t.Errorf("accepted:\n%s", h.Print())
			}
			for _, inv := range model.Invariants() {
				want := inv.ID == b.id || slices.Contains(b.also, inv.ID)
				if got := explained(model.NewRules(h.Contract).Excusing(inv.ID), h); got != want {
					t.Errorf("excusing %s: explained %v, want %v\n%s", inv.ID, got, want, h.Print())
				}
			}
			h.Contract.Waivers = []model.Waiver{{Invariant: b.id, Reason: "known"}}
			if !explained(model.NewRules(h.Contract), h) {
				t.Errorf("refused although waived:\n%s", h.Print())
			}
		})
	}
}

func TestExcusingLeavesTheRulesThatItWidensAlone(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), begin(0).claimed(2)))
	strict := model.NewRules(h.Contract)
	if !explained(strict.Excusing(model.ExclusiveClaim), h) || explained(strict, h) {
		t.Error("Excusing changed its receiver, or excused nothing")
	}
}

// A right history stays explained whatever is excused: a wider rule accepts more, never less.
func TestExcusingNeverRefusesWhatIsRight(t *testing.T) {
	right := []*model.History{
		history(model.Contract{}, calls(begin(0).claimed(1), begin(30*sec).claimed(2), completeClaim(1, 31*sec).fenced(),
			commit(2, 32*sec, 1).ok(), commit(2, 33*sec, 0).ok(), begin(34*sec).not(done(2, 32*sec)), prune(33*sec).count(1), begin(35*sec).claimed(1))),
		history(model.Contract{}, calls(begin(0).lost(), begin(sec).not(processing(1, 30*sec, 0)), begin(30*sec).claimed(2),
			release(3, 31*sec, 40*sec).ok(), begin(40*sec).claimed(3), bury(5, 41*sec).ok(), replay(42*sec).ok(), begin(43*sec).claimed(4))),
		history(model.Contract{MaxAttempts: 1}, calls(begin(0).claimed(1), extend(1, sec).not(processing(1, 31*sec, 0)),
			begin(31*sec).not(dead(1)), lookup().found(dead(1)))),
		history(model.Contract{}, calls(applyOnce(0, 1).lost(), applyOnce(sec, 0).ok(), prune(sec).count(1), applyOnce(2*sec, 1).yes())),
	}
	for i, h := range right {
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		if !explained(model.NewRules(h.Contract), h) {
			t.Errorf("history %d is refused:\n%s", i, h.Print())
		}
		for _, inv := range model.Invariants() {
			if !explained(model.NewRules(h.Contract).Excusing(inv.ID), h) {
				t.Errorf("history %d is refused once %s is excused", i, inv.ID)
			}
		}
	}
}

package model_test

import (
	"errors"
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestALostReplyLeavesBothOutcomesOpen(t *testing.T) {
	own := calls(begin(0).claimed(1))
	live := claimedBy(1, 1, 30*sec)
	lostBegin := calls(begin(0).lost())
	lostDone := calls(begin(0).claimed(1), completeClaim(1, 5*sec).lost())
	run(t, []row{
		{name: "Begin", then: begin(0).lost(), want: can("absent", live)},
		{name: "Begin on a live claim", given: own, then: begin(sec).lost(), want: can(live)},
		{name: "Begin on an expired claim", given: own, then: begin(30 * sec).lost(), want: can(live, claimedBy(2, 2, 60*sec))},
		{name: "Begin on DONE", given: calls(begin(0).claimed(1), completeClaim(1, sec).ok()), then: begin(2 * sec).lost(), want: can(doneBy(1, sec))},
		{name: "Complete", given: own, then: complete(5 * sec).lost(), want: can(live, doneBy(0, 5*sec))},
		{name: "Complete on absent", then: complete(5 * sec).lost(), want: can("absent")},
		{name: "CompleteClaim", given: own, then: completeClaim(1, 5*sec).lost(), want: can(live, doneBy(1, 5*sec))},
		{name: "CompleteClaim, stale", given: append(own[:1:1], begin(30*sec).claimed(2)), then: completeClaim(1, 31*sec).lost(),
			want: can(claimedBy(2, 2, 60*sec))},
		{name: "Release", given: own, then: release(1, sec, 2*sec).lost(), want: can(live, releasedBy(1, 1, "2s"))},
		{name: "Bury", given: own, then: bury(1, sec).lost(), want: can(live, "DEAD")},
		{name: "Replay", given: append(own[:1:1], bury(1, sec).ok()), then: replay(2 * sec).lost(),
			want: can("DEAD", "PROCESSING, replayed, attempts 1, claimable at once")},
		{name: "a lost claim is seen by the next caller", given: lostBegin, then: begin(sec).not(processing(1, 30*sec, 0)), want: can(live)},
		{name: "a lost claim never happened", given: lostBegin, then: begin(sec).claimed(1), want: can(claimedBy(2, 1, 31*sec))},
		{name: "a lost claim is taken over", given: lostBegin, then: begin(30 * sec).claimed(2), want: can(claimedBy(2, 2, 60*sec))},
		{name: "a lost completion happened", given: lostDone, then: begin(40 * sec).not(done(1, 5*sec)), want: can(doneBy(1, 5*sec))},
		{name: "a lost completion never happened", given: lostDone, then: begin(40 * sec).claimed(2), want: can(claimedBy(3, 2, 70*sec))},
		{name: "a lost completion, asked again in time", given: lostDone, then: completeClaim(1, 6*sec).ok(), want: can(doneBy(1, 5*sec), doneBy(1, 6*sec))},
		{name: "a lost completion, asked again late", given: lostDone, then: completeClaim(1, 40*sec).fenced(), want: can(live)},
		{name: "the token of a lost claim is learned, and binds", given: append(lostBegin[:1:1], begin(sec).not(processing(1, 30*sec, 0)).token("5")),
			then: begin(2 * sec).not(processing(1, 30*sec, 0)).token("5"), want: can(live)},
		{name: "wrong: a lost claim is refused when its lease is over", given: lostBegin, then: begin(30 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: a lost claim counts, and never happened", given: lostBegin, then: begin(sec).claimed(2)},
		{name: "wrong: a lost claim counts twice", given: lostBegin, then: begin(30 * sec).claimed(3)},
		{name: "wrong: a lost completion at another time", given: lostDone, then: begin(40 * sec).not(done(1, 6*sec))},
		{name: "wrong: a lost completion, and stuck", given: lostDone, then: begin(40 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: the token of a lost claim changes", given: append(lostBegin[:1:1], begin(sec).not(processing(1, 30*sec, 0)).token("5")),
			then: begin(2 * sec).not(processing(1, 30*sec, 0)).token("6")},
	})
}

func TestWhatTheKitKnowsClosesAnUnknownOutcome(t *testing.T) {
	own := calls(begin(0).claimed(1))
	live := claimedBy(1, 1, 30*sec)
	run(t, []row{
		{name: "Begin, seen to be applied", then: begin(0).applied(), want: can(live)},
		{name: "Begin on a live claim, seen to be applied", given: own, then: begin(sec).applied(), want: can(live)},
		{name: "Complete, seen to be applied", given: own, then: complete(sec).applied(), want: can(doneBy(0, sec))},
		{name: "CompleteClaim, seen to be applied", given: own, then: completeClaim(1, sec).applied(), want: can(doneBy(1, sec))},
		{name: "Begin, proved not to arrive", then: begin(0).kept(), want: can("absent")},
		{name: "CompleteClaim, proved not to arrive", given: own, then: completeClaim(1, sec).kept(), want: can(live)},
		{name: "wrong: applied, and forgotten", given: calls(begin(0).applied()), then: begin(sec).claimed(1)},
		{name: "wrong: never arrived, and there", given: calls(begin(0).kept()), then: begin(sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: ErrFenced under a fault is still the store's word", given: own, then: faulty(completeClaim(1, sec).fenced())},
		{name: "wrong: an answer under a fault is still the store's word", given: own, then: faulty(begin(sec).claimed(2))},
		{name: "wrong: a proved failure without a fault", then: begin(0).refusal(model.NotApplied, model.Failed)},
	})
}

func faulty(c *call) *call { c.o.Fault = 1; return c }

func TestAnErrorOfTheStoresOwnIsNotExcusedByNoFault(t *testing.T) {
	own := calls(begin(0).claimed(1))
	live := claimedBy(1, 1, 30*sec)
	waived := model.Contract{Waivers: []model.Waiver{{Invariant: model.TypedAnswers, Reason: "gives up under contention"}}}
	run(t, []row{
		{name: "late completion: either", given: own, then: completeClaim(1, 30*sec).failed(), want: can(live, doneBy(1, 30*sec))},
		{name: "Complete on DONE: nothing new", given: calls(begin(0).claimed(1), complete(sec).ok()), then: complete(2 * sec).failed(),
			want: can(doneBy(0, sec), doneBy(0, 2*sec))},
		{name: "late Release: either", given: own, then: release(1, 31*sec, 40*sec).failed(), want: can(live, releasedBy(1, 1, "40s"))},
		{name: "wrong: Begin", then: begin(0).failed()},
		{name: "wrong: Begin on DONE", given: calls(begin(0).claimed(1), complete(sec).ok()), then: begin(2 * sec).failed()},
		{name: "wrong: Prune", then: prune(0).failed()},
		{name: "waived: Begin may have happened", contract: waived, then: begin(0).failed(), want: can("absent", live)},
		{name: "waived: Begin may still have happened later", contract: waived, given: calls(begin(0).failed()), then: completeClaim(0, sec).notFound(),
			want: can("absent", live)},
		{name: "waived: a completion may have happened", contract: waived, given: own, then: completeClaim(1, sec).failed(), want: can(live, doneBy(1, sec))},
		{name: "waived: Prune may have happened", contract: waived, given: calls(begin(0).claimed(1), complete(sec).ok()), then: prune(2 * sec).failed(),
			want: can("absent", doneBy(0, sec))},
		{name: "waived: proved to have done nothing", contract: waived, then: begin(0).refusal(model.NotApplied, model.Failed), want: can("absent")},
		{name: "waived, and still wrong: claimed twice", contract: waived, given: own, then: begin(sec).claimed(2)},
	})
}

func TestACallThatNeverReturnedMayHaveHappened(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), completeClaim(1, sec)))
	h.Operations[1].Return, h.Operations[1].Answer = 0, model.Answer{}
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	rules, now, events := model.NewRules(h.Contract), model.Fresh(), h.Events()
	for i := range events {
		now = now.Next(rules, &events[i])
	}
	if got := describe(h, now); len(got) != 2 {
		t.Errorf("got %q, want PROCESSING and DONE", got)
	}
}

func TestInputThatNoStoreCanServeMayBeRefusedByAnyError(t *testing.T) {
	picky := model.Contract{AcceptsKey: func(_, id string) error {
		if id == "m\x00" {
			return errors.New("no NUL")
		}
		return nil
	}}
	coarse := model.Contract{Precision: ms, MinLease: sec}
	own := calls(begin(0).claimed(1))
	anyLease := "PROCESSING, claimed by #1, attempts 1, lease until any time"
	run(t, []row{
		{name: "a lease of zero: ErrRefused", then: begin(0).lease(0).refused(), want: can("absent")},
		{name: "a lease of zero: an untyped error", then: begin(0).lease(0).failed(), want: can("absent")},
		{name: "a negative lease", then: begin(0).lease(-sec).refused(), want: can("absent")},
		{name: "a lease of zero, taken: any lease", then: begin(0).lease(0).claimed(1).until(30 * sec), want: can(anyLease)},
		{name: "a lease too short for the store", contract: coarse, then: begin(0).lease(ms).refused(), want: can("absent")},
		{name: "a lease too short for the store, taken", contract: coarse, then: begin(0).lease(ms).claimed(1).until(2 * sec), want: can(anyLease)},
		{name: "an Extend by zero", given: own, then: extend(1, sec).lease(0).failed(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "an empty id", then: begin(0).key("c", "").failed(), want: can("absent")},
		{name: "an empty consumer", then: complete(0).key("", "m").refused(), want: can("absent")},
		{name: "a zero now: ErrRefused", given: own, then: complete(0).zeroNow().refused(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a zero now: an untyped error", then: begin(0).zeroNow().failed(), want: can("absent")},
		{name: "a zero now, taken", then: begin(0).zeroNow().claimed(1), want: can(anyLease)},
		{name: "a zero now on a claim: refused as live", given: own, then: begin(0).zeroNow().not(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a key that the store cannot hold", contract: picky, then: begin(0).key("c", "m\x00").failed(), want: can("absent")},
		{name: "a key that the store cannot hold, held", contract: picky, then: begin(0).key("c", "m\x00").claimed(1), want: can(claimedBy(1, 1, 30*sec))},
		{name: "wrong: a fit key refused", contract: picky, then: begin(0).key("c", "m").refused()},
		{name: "wrong: the shortest lease of all refused", then: begin(0).lease(1).refused()},
		{name: "wrong: the shortest lease of this store refused", contract: coarse, then: begin(0).lease(sec).refused()},
		{name: "wrong: a lease of zero refused, and there", given: calls(begin(0).lease(0).failed()), then: begin(sec).not(processing(1, 30*sec, 0))},
	})
}

func TestEveryRefusalOfAFreshKeyIsPure(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1)))
	e := h.Events()[0]
	s := model.KeyState{}
	first, second := model.Step(h.Contract, s, e), model.Step(h.Contract, s, e)
	if len(first) != 1 || len(second) != 1 || first[0] != second[0] || s != (model.KeyState{}) {
		t.Errorf("Step is not pure: %v, %v", first, second)
	}
}

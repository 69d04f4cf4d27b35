package model_test

import (
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestPruneForgetsOldDoneAndNothingElse(t *testing.T) {
	finished := calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok())
	again := append(finished[:2:2], complete(9*sec).ok())
	own := calls(begin(0).claimed(1))
	kept := can(doneBy(1, 5*sec))
	atMost := model.Contract{PruneAtMost: 1}
	run(t, []row{
		{name: "UpdatedAt one nanosecond before", given: finished, then: prune(5*sec + 1).count(1), want: can("absent")},
		{name: "UpdatedAt == before stays", given: finished, then: prune(5 * sec).ok(), want: kept},
		{name: "UpdatedAt after stays", given: finished, then: prune(4 * sec).ok(), want: kept},
		{name: "counted from completion, not from claim", given: finished, then: prune(3 * sec).ok(), want: kept},
		{name: "a live claim stays", given: own, then: prune(9000 * sec).ok(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "wrong: old, and left", given: finished, then: prune(5*sec + 1).ok()},
		{name: "nothing there", then: prune(9000 * sec).ok(), want: can("absent")},
		{name: "completed again: whichever UpdatedAt the store chose", given: again, then: prune(7 * sec).count(1),
			want: can("absent", doneBy(1, 9*sec))},
		{name: "bounded per call: perhaps", contract: atMost, given: finished, then: prune(6 * sec).count(1), want: can("absent", doneBy(1, 5*sec))},
		{name: "bounded per call: never a young one", contract: atMost, given: finished, then: prune(5 * sec).ok(), want: kept},
		{name: "lost: perhaps", given: finished, then: prune(6 * sec).lost(), want: can("absent", doneBy(1, 5*sec))},
		{name: "lost, young: no", given: finished, then: prune(5 * sec).lost(), want: kept},
		{name: "seen to be applied: gone", given: finished, then: prune(6 * sec).applied(), want: can("absent")},
		{name: "proved not to arrive: stays", given: finished, then: prune(6 * sec).kept(), want: kept},
		{name: "forgotten, claimed afresh", given: append(finished[:2:2], prune(6*sec).count(1)), then: begin(7 * sec).claimed(1),
			want: can(claimedBy(4, 1, 37*sec))},
		{name: "wrong: forgotten, attempts go on", given: append(finished[:2:2], prune(6*sec).count(1)), then: begin(7 * sec).claimed(2)},
		{name: "wrong: forgotten, and DONE", given: append(finished[:2:2], prune(6*sec).count(1)), then: begin(7 * sec).not(done(1, 5*sec))},
		{name: "wrong: too young, and claimed", given: append(finished[:2:2], prune(5*sec).ok()), then: begin(7 * sec).claimed(1)},
		{name: "wrong: a live claim pruned", given: calls(begin(0).claimed(1), prune(900*sec).ok()), then: begin(sec).claimed(1)},
		{name: "wrong: an expired claim pruned", given: calls(begin(0).claimed(1), prune(900*sec).ok()), then: begin(900 * sec).claimed(1)},
		{name: "wrong: an untyped error", given: finished, then: prune(6 * sec).failed()},
	})
}

func TestStepOptionalMayForgetAndOwesNothing(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok(), prune(6*sec).count(1), prune(5*sec).ok()))
	rules, now, events := model.NewRules(h.Contract), model.Fresh(), h.Events()
	for i := range events[:2] {
		now = now.Next(rules, &events[i])
	}
	if got := describe(h, now.NextOptional(rules, &events[2])); len(got) != 2 {
		t.Errorf("an old record: got %q, want it there and gone", got)
	}
	if got := describe(h, now.NextOptional(rules, &events[3])); len(got) != 1 || got[0] != doneBy(1, 5*sec) {
		t.Errorf("a young record: got %q, want it there", got)
	}
	if now.AnyAbsent() || !now.Equal(now.NextOptional(rules, &events[3])) || !model.Fresh().AllAbsent() {
		t.Errorf("the receiver changed: %q", describe(h, now))
	}
}

func TestAStoreThatForgetsByItself(t *testing.T) {
	ttl := model.Contract{Retention: model.ByItself, Window: 100 * sec, Redelivery: 50 * sec}
	lease := model.Contract{LeaseIsRecord: true}
	finished := calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok())
	own := calls(begin(0).claimed(1))
	run(t, []row{
		{name: "DONE one nanosecond before the window ends", contract: ttl, given: finished, then: begin(105*sec - 1).not(done(1, 5*sec)),
			want: can(doneBy(1, 5*sec))},
		{name: "claimed afresh when the window has ended", contract: ttl, given: finished, then: begin(105 * sec).claimed(1),
			want: can(claimedBy(3, 1, 135*sec))},
		{name: "Complete after the window: error", contract: ttl, given: finished, then: complete(105 * sec).notFound(),
			want: can("absent", doneBy(1, 5*sec))}, // not removed yet, perhaps: the next caller's clock may run behind
		{name: "a claim after the window: ErrNotFound", contract: ttl, given: finished, then: completeClaim(1, 105*sec).notFound(),
			want: can("absent", doneBy(1, 5*sec))},
		{name: "the window starts again with a second Complete, or not", contract: ttl,
			given: calls(begin(0).claimed(1), complete(5*sec).ok(), complete(50*sec).ok()), then: begin(110 * sec).not(done(1, 50*sec)),
			want: can(doneBy(0, 50*sec))},
		{name: "Prune owes nothing", contract: ttl, given: finished, then: prune(6 * sec).count(1), want: can("absent", doneBy(1, 5*sec))},
		{name: "an expired claim is taken over as ever", contract: ttl, given: own, then: begin(30 * sec).claimed(2), want: can(claimedBy(2, 2, 60*sec))},
		{name: "the lease is the record: attempts start again", contract: lease, given: own, then: begin(30 * sec).claimed(1),
			want: can(claimedBy(2, 1, 60*sec))},
		{name: "the lease is the record: a live claim is refused", contract: lease, given: own, then: begin(29 * sec).not(processing(1, 30*sec, 0)),
			want: can(claimedBy(1, 1, 30*sec))},
		{name: "the lease is the record: late, ErrNotFound", contract: lease, given: own, then: completeClaim(1, 30*sec).notFound(),
			want: can("absent", claimedBy(1, 1, 30*sec))},
		{name: "the lease is the record: released at once, forgotten", contract: lease, given: calls(begin(0).claimed(1), release(1, sec, sec).ok()),
			then: begin(2 * sec).claimed(1), want: can(claimedBy(3, 1, 32*sec))},
		{name: "the lease is the record: released at once, attempts kept", contract: lease, given: calls(begin(0).claimed(1), release(1, sec, sec).ok()),
			then: begin(2 * sec).claimed(2), want: can(claimedBy(3, 2, 32*sec))},
		{name: "the lease is the record: replayed, attempts kept", contract: lease,
			given: calls(begin(0).claimed(1), bury(1, sec).ok(), replay(90*sec).ok()), then: begin(90 * sec).claimed(2), want: can(claimedBy(4, 2, 120*sec))},
		{name: "the lease is the record: DONE stays", contract: lease, given: finished, then: begin(900 * sec).not(done(1, 5*sec)), want: can(doneBy(1, 5*sec))},
		{name: "wrong: forgotten one nanosecond early", contract: ttl, given: finished, then: begin(105*sec - 1).claimed(1)},
		{name: "wrong: the window counted from the claim", contract: ttl, given: finished, then: begin(100 * sec).claimed(1)},
		{name: "wrong: remembered when the window has ended", contract: ttl, given: finished, then: begin(105 * sec).not(done(1, 5*sec))},
		{name: "wrong: forgotten without a window of its own", given: finished, then: begin(90 * 24 * 3600 * sec).claimed(1)},
		{name: "wrong: the lease is the record, attempts go on", contract: lease, given: own, then: begin(30 * sec).claimed(2)},
		{name: "wrong: the lease is the record, completed late", contract: lease, given: own, then: completeClaim(1, 30*sec).ok()},
		{name: "wrong: the lease is the record, vanished early", contract: lease, given: own, then: begin(29 * sec).claimed(1)},
		{name: "wrong: the lease is no record, attempts start again", given: own, then: begin(30 * sec).claimed(1)},
	})
}

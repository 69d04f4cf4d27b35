package model_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

func open(effects int) string {
	return "delivered and not known to be finished, effects so far: " + strconv.Itoa(effects)
}

func finished(at string, effects int) string {
	return "DONE at " + at + ", effects so far: " + strconv.Itoa(effects)
}

const day = 24 * time.Hour

func TestADeliveryIsJudgedByWhatItTellsAndByTheEffectsFound(t *testing.T) {
	once := calls(deliver(0, 1).appliedNow())
	run(t, []row{
		{name: "applied, one effect", then: deliver(0, 1).appliedNow(), want: can(finished("0s", 1))},
		{name: "again: duplicate, no effect", given: once, then: deliver(sec, 0).duplicate(), want: can(finished("0s", 1), finished("1s", 1))},
		{name: "again: told applied, and nothing was written", given: once, then: deliver(sec, 0).appliedNow(), want: can(finished("0s", 1), finished("1s", 1))},
		{name: "nobody looked for effects", then: unread(deliver(0, -1).appliedNow()), want: can(finished("0s", 0))},
		{name: "another delivery may still be at it: in flight", given: calls(deliver(0, 0).lost()), then: deliver(90*day, 0).inFlight(),
			want: can(open(0), "DEAD")},
		{name: "wrong: applied without an effect", then: deliver(0, 0).appliedNow()},
		{name: "wrong: applied with two effects", then: deliver(0, 2).appliedNow()},
		{name: "wrong: duplicate of nothing", then: deliver(0, 0).duplicate()},
		{name: "wrong: in flight, and nobody is at it", then: deliver(0, 0).inFlight()},
		{name: "wrong: buried at once", then: deliver(0, 0).buried()},
		{name: "wrong: an error without a cause", then: deliver(0, 0).failed()},
		{name: "wrong: again: applied, a second effect", given: once, then: deliver(sec, 1).appliedNow()},
		{name: "wrong: again: duplicate, and a second effect", given: once, then: deliver(sec, 1).duplicate()},
		{name: "wrong: again: in flight", given: once, then: deliver(sec, 0).inFlight()},
		{name: "wrong: again: an error", given: once, then: deliver(sec, 0).failed()},
		{name: "wrong: again: buried", given: once, then: deliver(sec, 0).buried()},
	})
}

// unread is a call whose effects nobody looked for.
func unread(c *call) *call { c.o.Effect = model.Effect{}; return c }

func TestADeliveryThatDidNotFinishLeavesTheMessageOpenForAWhile(t *testing.T) {
	cut, halfway := calls(deliver(0, 0).lost().over()), calls(deliver(0, 1).lost().over())
	run(t, []row{
		{name: "the reply was lost before anything happened", then: deliver(0, 0).lost().over(), want: can("absent", open(0), "DEAD")},
		{name: "the reply was lost after the effect", then: deliver(0, 1).lost().over(), want: can(open(1), finished("0s", 1), "DEAD")},
		{name: "a proof that the effect did not happen says nothing of the claim", then: deliver(0, 0).kept(), want: can("absent", open(0), "DEAD")},
		{name: "told as in flight because of a fault", then: deliver(0, 0).inFlight().faulty(), want: can(open(0))},
		{name: "then applied", given: cut, then: deliver(sec, 1).appliedNow(), want: can(finished("1s", 1))},
		{name: "then in flight, until the latest redelivery", given: cut, then: deliver(day-1, 0).inFlight(), want: can(open(0))},
		{name: "then an error, as in flight", given: cut, then: deliver(sec, 0).failed(), want: can(open(0), "DEAD")},
		{name: "then an error at the latest redelivery: given up", given: cut, then: deliver(day, 0).failed(), want: can("DEAD")},
		{name: "then buried", given: cut, then: deliver(sec, 0).buried(), want: can("DEAD")},
		{name: "buried stays buried", given: calls(deliver(0, 0).lost().over(), deliver(sec, 0).buried()), then: deliver(90*day, 0).buried(), want: can("DEAD")},
		{name: "after the effect: duplicate", given: halfway, then: deliver(sec, 0).duplicate(),
			want: can(finished("0s", 1), finished("0s…1s", 1), finished("1s", 1))},
		{name: "after the effect: told as applied", given: halfway, then: deliver(sec, 0).appliedNow(),
			want: can(finished("0s", 1), finished("0s…1s", 1), finished("1s", 1))},
		{name: "wrong: in flight at the latest redelivery", given: cut, then: deliver(day, 0).inFlight()},
		{name: "wrong: errors for ever", given: calls(deliver(0, 0).lost().over(), deliver(day, 0).failed().over()), then: deliver(2*day, 0).failed()},
		{name: "wrong: told as duplicate, and nothing had happened", given: cut, then: deliver(sec, 0).duplicate()},
		{name: "wrong: the effect again after a lost reply", given: halfway, then: deliver(sec, 1).appliedNow()},
		{name: "wrong: the effect again by a call that failed", given: halfway, then: deliver(sec, 1).lost().over()},
		{name: "wrong: buried, and applied later", given: calls(deliver(0, 0).lost().over(), deliver(sec, 0).buried()), then: deliver(2*sec, 1).appliedNow()},
	})
}

func TestAConsumerRemembersForItsWindow(t *testing.T) {
	c := model.Contract{Window: 3 * day, Redelivery: day}
	once := calls(deliver(0, 1).appliedNow())
	run(t, []row{
		{name: "duplicate at the window's end", contract: c, given: once, then: deliver(3*day, 0).duplicate(),
			want: can(finished("0s", 1), finished("72h0m0s", 1), finished("72h0m0s", 0))},
		{name: "after the window: applied again", contract: c, given: once, then: deliver(3*day+1, 1).appliedNow(),
			want: can(finished("72h0m0.000000001s", 1))},
		{name: "after the window: still remembered", contract: c, given: once, then: deliver(3*day+1, 0).duplicate(),
			want: can(finished("0s", 1), finished("72h0m0.000000001s", 1), finished("72h0m0.000000001s", 0))},
		{name: "pruned, and a business key remembers that it happened", contract: c,
			given: calls(deliver(0, 1).appliedNow(), prune(sec).count(1)), then: deliver(2*sec, 0).duplicate(), want: can(finished("2s", 0))},
		{name: "another worker's clock had come past the window", contract: c,
			given: calls(deliver(0, 1).appliedNow(), deliver(4*day, 0).duplicate()), then: deliver(day, 1).appliedNow(),
			want: can(finished("24h0m0s", 1), finished("96h0m0s", 1))},
		{name: "pruned: applied again", contract: c, given: calls(deliver(0, 1).appliedNow(), prune(sec).count(1)), then: deliver(2*sec, 1).appliedNow(),
			want: can(finished("2s", 1))},
		{name: "wrong: the effect again within the window", contract: c, given: once, then: deliver(3*day-1, 1).appliedNow()},
		{name: "wrong: told as duplicate, and it never happened", contract: c, given: calls(deliver(0, 0).lost().over(), prune(sec).count(0)), then: deliver(2*sec, 0).duplicate()},
		{name: "wrong: a young one is pruned", contract: c, given: calls(deliver(0, 1).appliedNow(), prune(0).count(0)), then: deliver(2*sec, 1).appliedNow()},
	})
}

func TestDeliveriesAtOnceAreTold(t *testing.T) {
	h := history(model.Contract{}, calls(deliver(0, 1).appliedNow(), deliver(0, 0).inFlight(), deliver(sec, 0).key("orders", "m-2").inFlight(), deliver(2*sec, 0).duplicate()))
	h.Operations[0].Return, h.Operations[1].Return = 4, 5 // 1 to 4, beside 3 to 5
	h.Operations[2].Call, h.Operations[2].Return = 6, 7
	h.Operations[3].Call, h.Operations[3].Return = 8, 9
	for i, want := range []bool{true, true, false, false} {
		if e := h.Events()[i]; e.Contended != want {
			t.Errorf("delivery %d: contended %v, want %v", e.ID, e.Contended, want)
		}
	}
	if e := h.Events()[1]; e.Latest != instant(0) {
		t.Errorf("the clocks had come to %v, want 0s", h.Offset(e.Latest))
	}
	if e := h.Events()[3]; e.Latest != instant(2*sec) {
		t.Errorf("the clocks had come to %v, want 2s", h.Offset(e.Latest))
	}
}

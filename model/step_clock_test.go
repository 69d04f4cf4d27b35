package model_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

func TestAlignedInstantsCompareExactlyAndOthersWithinOneUnitEitherWay(t *testing.T) {
	const us = time.Microsecond
	coarse := model.Contract{Precision: ms}
	own := calls(begin(0).claimed(1))
	odd := calls(begin(300 * us).claimed(1))                                // its lease ends at 30s + 0.3ms
	rounded := calls(begin(300 * us).claimed(1).until(30 * sec).updated(0)) // and is told as 30s
	finished := calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok())
	finishedOdd := calls(begin(0).claimed(1), completeClaim(1, 5*sec+300*us).ok())
	live := can(claimedBy(1, 1, 30*sec))
	over := can(claimedBy(2, 2, 60*sec))
	run(t, []row{
		{name: "aligned, at the end: claimed", contract: coarse, given: own, then: begin(30 * sec).claimed(2), want: over},
		{name: "aligned, one unit before: refused", contract: coarse, given: own, then: begin(30*sec - ms).not(processing(1, 30*sec, 0)), want: live},
		{name: "unaligned, within a unit before: claimed", contract: coarse, given: own, then: begin(30*sec - 1).claimed(2), want: can(claimedBy(2, 2, 60*sec-1))},
		{name: "unaligned, within a unit before: refused", contract: coarse, given: own, then: begin(30*sec - 1).not(processing(1, 30*sec, 0)), want: live},
		{name: "unaligned, within a unit after: claimed", contract: coarse, given: own, then: begin(30*sec + 1).claimed(2), want: can(claimedBy(2, 2, 60*sec+1))},
		{name: "unaligned, within a unit after: refused", contract: coarse, given: own, then: begin(30*sec + 1).not(processing(1, 30*sec, 0)), want: live},
		{name: "an unaligned lease, told as it is", contract: coarse, given: odd, then: begin(sec).not(processing(1, 30*sec+300*us, 300*us)),
			want: can(claimedBy(1, 1, 30*sec+300*us))},
		{name: "an unaligned lease, told rounded", contract: coarse, given: rounded, then: begin(sec).not(processing(1, 30*sec, 0)),
			want: can(claimedBy(1, 1, 30*sec+300*us))},
		{name: "an unaligned lease, rounded down, claimed at the rounded end", contract: coarse, given: rounded, then: begin(30 * sec).claimed(2), want: over},
		{name: "an unaligned lease, rounded up, refused at the true end", contract: coarse, given: odd,
			then: begin(30*sec + 300*us).not(processing(1, 30*sec+ms, 0)), want: can(claimedBy(1, 1, 30*sec+300*us))},
		{name: "Prune, aligned, UpdatedAt == before: stays", contract: coarse, given: finished, then: prune(5 * sec).ok(), want: can(doneBy(1, 5*sec))},
		{name: "Prune, aligned, one unit later: gone", contract: coarse, given: finished, then: prune(5*sec + ms).count(1), want: can("absent")},
		{name: "Prune, unaligned within a unit: either", contract: coarse, given: finishedOdd, then: prune(5*sec + ms).count(1),
			want: can("absent", doneBy(1, 5*sec+300*us))},
		{name: "Prune, unaligned, a whole unit later: gone", contract: coarse, given: finishedOdd, then: prune(5*sec + 300*us + ms).count(1), want: can("absent")},
		{name: "Prune, unaligned, a whole unit earlier: stays", contract: coarse, given: finishedOdd, then: prune(5*sec + 300*us - ms).ok(),
			want: can(doneBy(1, 5*sec+300*us))},
		{name: "replayed with an unaligned claim behind it: claimed at once", contract: coarse,
			given: calls(begin(300*us).claimed(1), bury(1, sec).ok(), replay(2*sec).ok()), then: begin(2 * sec).claimed(2), want: can(claimedBy(4, 2, 32*sec))},
		{name: "wrong: aligned, at the end, refused", contract: coarse, given: own, then: begin(30 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: aligned, one unit before, claimed", contract: coarse, given: own, then: begin(30*sec - ms).claimed(2)},
		{name: "wrong: unaligned, a whole unit before, claimed", contract: coarse, given: odd, then: begin(30*sec + 300*us - ms).claimed(2)},
		{name: "wrong: unaligned, a whole unit after, refused", contract: coarse, given: odd, then: begin(30*sec + 300*us + ms).not(processing(1, 30*sec, 0))},
		{name: "wrong: told two units off", contract: coarse, then: begin(0).claimed(1).until(30*sec + 2*ms)},
		{name: "wrong: replayed, and refused at once", contract: coarse, given: calls(begin(300*us).claimed(1), bury(1, sec).ok(), replay(2*sec).ok()),
			then: begin(2 * sec).not(processing(1, 2*sec, 2*sec))},
	})
}

func TestUnderTheServersClockOnlyTheIntervalIsJudged(t *testing.T) {
	server := model.Contract{Clock: model.ServerClock}
	exact := model.Contract{Clock: model.ServerClock, ClockError: -1}
	// A claim taken between 0s and 1s ends between 30s and 31s, give or take 50ms.
	own := calls(begin(0).claimed(1).around(0, sec))
	skewed := calls(begin(7000*sec).claimed(1).until(30*sec).updated(0).around(0, sec))
	finished := append(own[:1:1], completeClaim(1, 5*sec).ok().around(5*sec, 6*sec))
	live := can("PROCESSING, claimed by #1, attempts 1, lease until 29.95s…31.05s")
	refuse := func(from, to time.Duration) *call { return begin(0).not(processing(1, 30*sec, 0)).around(from, to) }
	claim := func(from, to time.Duration) *call {
		return begin(from).claimed(2).around(from, to)
	}
	taken := func(from, to string) []string {
		return can("PROCESSING, claimed by #2, attempts 2, lease until " + from + "…" + to)
	}
	run(t, []row{
		{name: "claimed when it is over for sure", contract: server, given: own, then: claim(31*sec+50*ms, 32*sec), want: taken("1m1s", "1m2.05s")},
		{name: "claimed when it may be over", contract: server, given: own, then: claim(29*sec, 30*sec), want: taken("58.95s", "1m0.05s")},
		{name: "refused when it is live for sure", contract: server, given: own, then: refuse(28*sec, 29*sec), want: live},
		{name: "refused when it may be live", contract: server, given: own, then: refuse(31*sec, 32*sec), want: live},
		{name: "the caller's skew has no influence", contract: server, given: skewed, then: refuse(2*sec, 3*sec), want: live},
		{name: "UpdatedAt within the clock's error", contract: server, then: begin(0).claimed(1).updated(-50*ms).around(0, sec), want: live},
		{name: "DONE told within the clock's error", contract: server, given: finished, then: begin(0).not(done(1, 6*sec+50*ms)).around(7*sec, 8*sec),
			want: can("DONE at 5s…6s by the claim of #1")},
		{name: "Prune within the clock's error: either", contract: server, given: finished, then: prune(6*sec+40*ms).count(1).around(9*sec, 10*sec),
			want: can("absent", "DONE at 5s…6s by the claim of #1")},
		{name: "Prune past it: gone", contract: server, given: finished, then: prune(6*sec+50*ms+1).count(1).around(9*sec, 10*sec), want: can("absent")},
		{name: "Prune before it: stays", contract: server, given: finished, then: prune(5*sec-50*ms).ok().around(9*sec, 10*sec),
			want: can("DONE at 5s…6s by the claim of #1")},
		{name: "the owner late for sure: ErrFenced", contract: server, given: own, then: completeClaim(1, 0).fenced().around(32*sec, 33*sec), want: live},
		{name: "the owner perhaps late: ErrFenced", contract: server, given: own, then: completeClaim(1, 0).fenced().around(29*sec, 30*sec), want: live},
		{name: "without an error and in no time it is exact", contract: exact, given: calls(begin(0).claimed(1).around(0, 0)), then: claim(30*sec, 30*sec),
			want: can(claimedBy(2, 2, 60*sec))},
		{name: "a lost claim: known to be closed at its return", contract: exact, given: calls(closedAtReturn(begin(0).lost().around(0, sec))),
			then: refuse(2*sec, 3*sec), want: can("PROCESSING, claimed by #1, attempts 1, lease until 30s…31s")},
		{name: "a lost claim: bounded by the next answer", contract: exact, given: calls(begin(0).lost().around(0, sec)),
			then: refuse(2*sec, 3*sec), want: can("PROCESSING, claimed by #1, attempts 1, lease until 30s…33s")},
		{name: "wrong: claimed when it is live for sure", contract: server, given: own, then: claim(28*sec, 29*sec)},
		{name: "wrong: refused when it is over for sure", contract: server, given: own, then: refuse(31*sec+50*ms, 32*sec)},
		{name: "wrong: judged by the caller's clock", contract: server, given: own, then: begin(7000*sec).claimed(2).around(2*sec, 3*sec)},
		{name: "wrong: a lease told outside the interval", contract: server, then: begin(0).claimed(1).until(33*sec).around(0, sec)},
		{name: "wrong: the owner in time, refused", contract: server, given: own, then: completeClaim(1, 0).fenced().around(28*sec, 29*sec)},
		{name: "wrong: exact, refused at the end", contract: exact, given: calls(begin(0).claimed(1).around(0, 0)), then: refuse(30*sec, 30*sec)},
		{name: "wrong: a lost claim, stuck for ever", contract: server,
			given: calls(begin(0).lost().around(0, sec), refuse(2*sec, 3*sec)), then: refuse(40*sec, 41*sec)},
		{name: "wrong: a lost claim, taken over early", contract: server,
			given: calls(begin(0).lost().around(0, sec), refuse(2*sec, 3*sec)), then: claim(28*sec, 29*sec)},
	})
}

const forever = time.Duration(1<<63 - 1)

func closedAtReturn(c *call) *call { c.o.Closed = 2; return c } // as the first call of its history

func TestCallersClocksThatDisagreeAreJudgedByTheirValuesAlone(t *testing.T) {
	own := calls(begin(0).claimed(1))
	run(t, []row{
		{name: "a fast clock takes over early in real time", given: own, then: begin(30*sec).claimed(2).around(sec, sec), want: can(claimedBy(2, 2, 60*sec))},
		{name: "a slow clock waits", given: own, then: begin(-5*sec).not(processing(1, 30*sec, 0)).around(90*sec, 90*sec), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a claim by a slow clock ends early", given: calls(begin(0).claimed(1), begin(30*sec).claimed(2), completeClaim(2, 31*sec).ok(), prune(32*sec).count(1)),
			then: begin(-60 * sec).claimed(1), want: can(claimedBy(5, 1, -30*sec))},
		{name: "the largest lease does not wrap round", then: begin(0).lease(forever).claimed(1),
			want: can("PROCESSING, claimed by #1, attempts 1, lease until " + instant(forever).Sub(epoch).String() + " or later")},
		{name: "a lease of 24 hours", then: begin(0).lease(24 * 3600 * sec).claimed(1), want: can(claimedBy(1, 1, 24*3600*sec))},
		{name: "a lease of one nanosecond", given: calls(begin(0).lease(1).claimed(1)), then: begin(1).claimed(2), want: can(claimedBy(2, 2, 30*sec+1))},
		{name: "wrong: the largest lease, claimed the next day", given: calls(begin(0).lease(forever).claimed(1)), then: begin(24 * 3600 * sec).claimed(2)},
	})
}

package model_test

import (
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestCompleteByKeyMustSucceedForTheOwnerAlone(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).handle(2).claimed(2))
	lost := calls(begin(0).lost(), begin(sec).handle(2).not(processing(1, 30*sec, 0)))
	live := claimedBy(1, 1, 30*sec)
	run(t, []row{
		{name: "by the owner", given: own, then: complete(5 * sec).ok(), want: can(doneBy(0, 5*sec))},
		{name: "by the owner one nanosecond before the end", given: own, then: complete(30*sec - 1).ok(), want: can(doneBy(0, 30*sec-1))},
		{name: "by the owner whose clock lags", given: own, then: complete(-sec).ok(), want: can(doneBy(0, -sec))},
		{name: "by another handle: ok", given: own, then: complete(5 * sec).handle(2).ok(), want: can(doneBy(0, 5*sec))},
		{name: "by another handle: error", given: own, then: complete(5 * sec).handle(2).fenced(), want: can(live)},
		{name: "by another handle: untyped error", given: own, then: complete(5 * sec).handle(2).failed(),
			want: can(doneBy(0, 5*sec), live)},
		{name: "late: ok", given: own, then: complete(30 * sec).ok(), want: can(doneBy(0, 30*sec))},
		{name: "late: error", given: own, then: complete(30 * sec).fenced(), want: can(live)},
		{name: "after a takeover, by the first owner: ok", given: overtaken, then: complete(31 * sec).ok(), want: can(doneBy(0, 31*sec))},
		{name: "after a takeover, by the first owner: error", given: overtaken, then: complete(31 * sec).fenced(),
			want: can(claimedBy(2, 2, 60*sec))},
		{name: "after a takeover, by the second owner", given: overtaken, then: complete(31 * sec).handle(2).ok(),
			want: can(doneBy(0, 31*sec))},
		{name: "by a handle that never learned of its claim: ok", given: lost, then: complete(5 * sec).ok(), want: can(doneBy(0, 5*sec))},
		{name: "by a handle that never learned of its claim: error", given: lost, then: complete(5 * sec).fenced(),
			want: can(live)},
		{name: "wrong: the owner gets ErrFenced", given: own, then: complete(5 * sec).fenced()},
		{name: "wrong: the owner gets ErrNotFound", given: own, then: complete(5 * sec).notFound()},
		{name: "wrong: the owner gets an untyped error", given: own, then: complete(5 * sec).failed()},
		{name: "wrong: the owner is refused one nanosecond before the end", given: own, then: complete(30*sec - 1).fenced()},
		{name: "wrong: the second owner is refused", given: overtaken, then: complete(31 * sec).handle(2).fenced()},
		{name: "wrong: ok, and the record is still claimable", given: calls(begin(0).claimed(1), complete(5*sec).handle(2).ok()),
			then: begin(30 * sec).claimed(2)},
		{name: "wrong: an error, and the record is DONE", given: calls(begin(0).claimed(1), complete(30*sec).fenced()),
			then: begin(31 * sec).not(done(1, 30*sec))},
	})
}

func TestCompleteByKeyWithoutAClaim(t *testing.T) {
	finished := calls(begin(0).claimed(1), complete(5*sec).ok())
	again := append(finished[:2:2], complete(9*sec).ok())
	buried := calls(begin(0).claimed(1), bury(1, sec).ok())
	run(t, []row{
		{name: "absent: ErrNotFound", then: complete(0).notFound(), want: can("absent")},
		{name: "absent: any other error", then: complete(0).failed(), want: can("absent")},
		{name: "absent again, after Prune", given: append(finished[:2:2], prune(6*sec).count(1)), then: complete(7 * sec).notFound(),
			want: can("absent")},
		{name: "DONE: ok, UpdatedAt kept or now", given: finished, then: complete(9 * sec).ok(),
			want: can(doneBy(0, 5*sec), doneBy(0, 9*sec))},
		{name: "DONE: error", given: finished, then: complete(9 * sec).fenced(), want: can(doneBy(0, 5*sec), doneBy(0, 9*sec))},
		{name: "DONE twice, UpdatedAt was kept", given: again, then: begin(10 * sec).not(done(1, 5*sec)), want: can(doneBy(0, 5*sec))},
		{name: "DONE twice, UpdatedAt was moved", given: again, then: begin(10 * sec).not(done(1, 9*sec)), want: can(doneBy(0, 9*sec))},
		{name: "DEAD: error", given: buried, then: complete(2 * sec).fenced(), want: can("DEAD")},
		{name: "DEAD: ok, and it may stay so", given: buried, then: complete(2 * sec).ok(), want: can("DEAD", doneBy(0, 2*sec))},
		{name: "wrong: absent, ok", then: complete(0).ok()},
		{name: "wrong: ok after Prune forgot it", given: append(finished[:2:2], prune(6*sec).count(1)), then: complete(7 * sec).ok()},
		{name: "wrong: DONE twice, UpdatedAt is neither", given: again, then: begin(10 * sec).not(done(1, 7*sec))},
		{name: "wrong: DONE twice, and it is claimable", given: again, then: begin(40 * sec).claimed(2)},
	})
}

func TestCompletionByClaimSucceedsForTheCurrentClaimAlone(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	finished := calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok())
	overtakenDone := append(overtaken[:2:2], completeClaim(2, 31*sec).ok())
	buried := calls(begin(0).claimed(1), bury(1, sec).ok())
	forgotten := append(finished[:2:2], prune(6*sec).count(1))
	again := append(forgotten[:3:3], begin(7*sec).claimed(1))
	rows := []row{
		{name: "in time", given: own, then: completeClaim(1, 5*sec).ok(), want: can(doneBy(1, 5*sec))},
		{name: "in time, whoever asks", given: own, then: completeClaim(1, 5*sec).handle(2).ok(), want: can(doneBy(1, 5*sec))},
		{name: "late, nobody took over: ok", given: own, then: completeClaim(1, 30*sec).ok(), want: can(doneBy(1, 30*sec))},
		{name: "late, nobody took over: ErrFenced", given: own, then: completeClaim(1, 30*sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "stale: ErrFenced", given: overtaken, then: completeClaim(1, 31*sec).fenced(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "stale, and untyped", given: overtaken, then: completeClaim(1, 31*sec).failed(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "current after a takeover", given: overtaken, then: completeClaim(2, 31*sec).ok(), want: can(doneBy(2, 31*sec))},
		{name: "DONE by the same claim", given: finished, then: completeClaim(1, 9*sec).ok(), want: can(doneBy(1, 5*sec))},
		{name: "DONE by the same claim, after the lease", given: finished, then: completeClaim(1, 99*sec).ok(), want: can(doneBy(1, 5*sec))},
		{name: "DONE by another claim: ErrFenced", given: overtakenDone, then: completeClaim(1, 32*sec).fenced(), want: can(doneBy(2, 31*sec))},
		{name: "DONE by key: ok", given: calls(begin(0).claimed(1), complete(sec).ok()), then: completeClaim(1, 2*sec).ok(),
			want: can(doneBy(0, sec))},
		{name: "DONE by key: error", given: calls(begin(0).claimed(1), complete(sec).ok()), then: completeClaim(1, 2*sec).fenced(),
			want: can(doneBy(0, sec))},
		{name: "DEAD: ErrFenced", given: buried, then: completeClaim(1, 2*sec).fenced(), want: can("DEAD")},
		{name: "DEAD: ErrNotFound", given: buried, then: completeClaim(1, 2*sec).notFound(), want: can("DEAD")},
		{name: "forgotten: ErrFenced", given: forgotten, then: completeClaim(1, 7*sec).fenced(), want: can("absent")},
		{name: "forgotten: ErrNotFound", given: forgotten, then: completeClaim(1, 7*sec).notFound(), want: can("absent")},
		{name: "from before a forgetting: ErrFenced", given: again, then: completeClaim(1, 8*sec).fenced(), want: can(claimedBy(4, 1, 37*sec))},
		{name: "no claim at all: ErrFenced", given: own, then: completeClaim(0, sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "wrong: refused in time", given: own, then: completeClaim(1, 5*sec).fenced()},
		{name: "wrong: refused one nanosecond before the end", given: own, then: completeClaim(1, 30*sec-1).fenced()},
		{name: "wrong: not found in time", given: own, then: completeClaim(1, 5*sec).notFound()},
		{name: "wrong: an untyped error in time", given: own, then: completeClaim(1, 5*sec).failed()},
		{name: "wrong: stale, ok", given: overtaken, then: completeClaim(1, 31*sec).ok()},
		{name: "wrong: stale, ok after the second lease too", given: overtaken, then: completeClaim(1, 61*sec).ok()},
		{name: "wrong: current after a takeover, refused", given: overtaken, then: completeClaim(2, 31*sec).fenced()},
		{name: "wrong: DONE by the same claim, refused", given: finished, then: completeClaim(1, 9*sec).fenced()},
		{name: "wrong: DONE by the same claim, UpdatedAt moved", given: append(finished[:2:2], completeClaim(1, 9*sec).ok()),
			then: begin(10 * sec).not(done(1, 9*sec))},
		{name: "wrong: DONE by another claim, ok", given: overtakenDone, then: completeClaim(1, 32*sec).ok()},
		{name: "wrong: DEAD, ok", given: buried, then: completeClaim(1, 2*sec).ok()},
		{name: "wrong: forgotten, ok", given: forgotten, then: completeClaim(1, 7*sec).ok()},
		{name: "wrong: from before a forgetting, ok", given: again, then: completeClaim(1, 8*sec).ok()},
		{name: "wrong: no claim at all, ok", given: own, then: completeClaim(0, sec).ok()},
	}
	run(t, rows)
	for _, r := range rows { // keeping a result changes nothing about who may
		if r.then.o.Kind == model.CompleteClaim && !r.then.o.Now.Time().IsZero() {
			as := *r.then
			as.o.Kind, as.o.Result = model.CompleteResult, "r"
			r.then = &as
			t.Run("with a result, "+r.name, func(t *testing.T) { r.run(t, model.NewRules(r.contract)) })
		}
	}
}

func TestCommitEffectWritesItsRowWithDoneOrNeither(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	committed := calls(begin(0).claimed(1), commit(1, 5*sec, 1).ok())
	live := claimedBy(1, 1, 30*sec)
	run(t, []row{
		{name: "in time, one row", given: own, then: commit(1, 5*sec, 1).ok(), want: can(doneBy(1, 5*sec))},
		{name: "in time, nobody looked", given: own, then: commit(1, 5*sec, -1).ok(), want: can(doneBy(1, 5*sec))},
		{name: "late: ok, one row", given: own, then: commit(1, 30*sec, 1).ok(), want: can(doneBy(1, 30*sec))},
		{name: "late: ErrFenced, no row", given: own, then: commit(1, 30*sec, 0).fenced(), want: can(live)},
		{name: "stale: ErrFenced, no row", given: overtaken, then: commit(1, 31*sec, 0).fenced(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "again: ok, no second row", given: committed, then: commit(1, 9*sec, 0).ok(), want: can(doneBy(1, 5*sec))},
		{name: "DONE by key: ok, no row", given: calls(begin(0).claimed(1), complete(sec).ok()), then: commit(1, 2*sec, 0).ok(),
			want: can(doneBy(0, sec))},
		{name: "lost, one row: applied", given: own, then: commit(1, 5*sec, 1).lost(), want: can(doneBy(1, 5*sec))},
		{name: "lost, no row: never applied", given: own, then: commit(1, 5*sec, 0).lost(), want: can(live)},
		{name: "lost, nobody looked: either", given: own, then: commit(1, 5*sec, -1).lost(), want: can(doneBy(1, 5*sec), live)},
		{name: "lost and stale, no row", given: overtaken, then: commit(1, 31*sec, 0).lost(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "lost, then again: ok, the row is the first one's", given: calls(begin(0).claimed(1), commit(1, sec, 1).lost()),
			then: commit(1, 2*sec, 0).ok(), want: can(doneBy(1, sec))},
		{name: "wrong: ok, no row", given: own, then: commit(1, 5*sec, 0).ok()},
		{name: "wrong: ok, two rows", given: own, then: commit(1, 5*sec, 2).ok()},
		{name: "wrong: late, ErrFenced, and one row", given: own, then: commit(1, 30*sec, 1).fenced()},
		{name: "wrong: late, an untyped error, and two rows", given: own, then: commit(1, 30*sec, 2).failed()},
		{name: "wrong: stale, ErrFenced, and one row", given: overtaken, then: commit(1, 31*sec, 1).fenced()},
		{name: "wrong: again, and a second row", given: committed, then: commit(1, 9*sec, 1).ok()},
		{name: "wrong: again, refused, and a second row", given: committed, then: commit(1, 9*sec, 1).fenced()},
		{name: "wrong: DONE by key, and a row", given: calls(begin(0).claimed(1), complete(sec).ok()), then: commit(1, 2*sec, 1).ok()},
		{name: "wrong: lost, two rows", given: own, then: commit(1, 5*sec, 2).lost()},
		{name: "wrong: lost and stale, one row", given: overtaken, then: commit(1, 31*sec, 1).lost()},
		{name: "wrong: seen to be applied, no row", given: own, then: commit(1, 5*sec, 0).applied()},
		{name: "wrong: proved not to arrive, one row", given: own, then: commit(1, 5*sec, 1).kept()},
		{name: "wrong: lost with a row, and still claimable", given: calls(begin(0).claimed(1), commit(1, sec, 1).lost()),
			then: begin(30 * sec).claimed(2)},
		{name: "wrong: lost without a row, and DONE", given: calls(begin(0).claimed(1), commit(1, sec, 0).lost()),
			then: begin(30 * sec).not(done(1, sec))},
		{name: "wrong: refused input, and one row", given: own,
			then: commit(1, 0, 1).zeroNow().refused()},
	})
}

func TestApplyOnceMarksAndAppliesTogether(t *testing.T) {
	marked := calls(applyOnce(0, 1).yes())
	run(t, []row{
		{name: "first: applied, one row", then: applyOnce(0, 1).yes(), want: can(doneBy(0, 0))},
		{name: "second: not applied again, no row", given: marked, then: applyOnce(sec, 0).ok(), want: can(doneBy(0, 0))},
		{name: "lost, one row", then: applyOnce(0, 1).lost(), want: can(doneBy(0, 0))},
		{name: "lost, no row", then: applyOnce(0, 0).lost(), want: can("absent")},
		{name: "forgotten: applied again", given: calls(applyOnce(0, 1).yes(), prune(sec).count(1)), then: applyOnce(2*sec, 1).yes(),
			want: can(doneBy(0, 2*sec))},
		{name: "read: no attempts to tell", given: marked, then: lookup().found(done(0, 0)), want: can(doneBy(0, 0))},
		{name: "read: the insert was one attempt", given: marked, then: lookup().found(done(1, 0)), want: can(doneBy(0, 0))},
		{name: "wrong: first, not applied", then: applyOnce(0, 0).ok()},
		{name: "wrong: first, applied without a row", then: applyOnce(0, 0).yes()},
		{name: "wrong: first, applied with two rows", then: applyOnce(0, 2).yes()},
		{name: "wrong: first, an untyped error", then: applyOnce(0, 0).failed()},
		{name: "wrong: second, applied", given: marked, then: applyOnce(sec, 1).yes()},
		{name: "wrong: second, not applied again, and a row", given: marked, then: applyOnce(sec, 1).ok()},
		{name: "wrong: lost with a row, then applied again", given: calls(applyOnce(0, 1).lost()), then: applyOnce(sec, 1).yes()},
		{name: "wrong: lost without a row, then a duplicate", given: calls(applyOnce(0, 0).lost()), then: applyOnce(sec, 0).ok()},
	})
}

func TestAStoreThatRefusesLateOwnersIsHeldToIt(t *testing.T) {
	late := model.Contract{RefusesLate: true}
	own := calls(begin(0).claimed(1))
	live := claimedBy(1, 1, 30*sec)
	run(t, []row{
		{name: "in time: ok", contract: late, given: own, then: completeClaim(1, 29*sec).ok(), want: can(doneBy(1, 29*sec))},
		{name: "late: ErrFenced", contract: late, given: own, then: completeClaim(1, 30*sec).fenced(), want: can(live)},
		{name: "late, by key: either", contract: late, given: own, then: complete(30 * sec).ok(), want: can(doneBy(0, 30*sec))},
		{name: "late, released before: ok", contract: late, given: calls(begin(0).claimed(1), release(1, sec, sec).ok()),
			then: completeClaim(1, 2*sec).ok(), want: can(doneBy(1, 2*sec))},
		{name: "late Extend: ErrFenced", contract: late, given: own, then: extend(1, 31*sec).fenced(), want: can(live)},
		{name: "DONE, again after the lease: ok", contract: late, given: calls(begin(0).claimed(1), completeClaim(1, sec).ok()),
			then: completeClaim(1, 99*sec).ok(), want: can(doneBy(1, sec))},
		{name: "wrong: late, ok", contract: late, given: own, then: completeClaim(1, 30*sec).ok()},
		{name: "wrong: late, committed", contract: late, given: own, then: commit(1, 30*sec, 1).ok()},
		{name: "wrong: late Extend, ok", contract: late, given: own, then: extend(1, 31*sec).not(processing(1, 61*sec, 0))},
		{name: "wrong: late Bury, ok", contract: late, given: own, then: bury(1, 31*sec).ok()},
		{name: "wrong: late Release, ok", contract: late, given: own, then: release(1, 31*sec, 32*sec).ok()},
		{name: "wrong: in time, refused", contract: late, given: own, then: completeClaim(1, 29*sec).fenced()},
	})
}

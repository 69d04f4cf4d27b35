package model_test

import (
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestReleaseGivesTheClaimBack(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	overtakenDone := append(overtaken[:2:2], completeClaim(2, 31*sec).ok())
	byKey := calls(begin(0).claimed(1), complete(sec).ok())
	soon := calls(begin(0).claimed(1), release(1, 5*sec, 10*sec).ok())
	atOnce := calls(begin(0).claimed(1), release(1, 5*sec, 2*sec).ok())
	late := calls(begin(0).claimed(1), release(1, 5*sec, 90*sec).ok())
	waiting := releasedBy(1, 1, "10s")
	now := releasedBy(1, 1, "5s or earlier")
	run(t, []row{
		{name: "until later", given: own, then: release(1, 5*sec, 10*sec).ok(), want: can(waiting)},
		{name: "until past: at once", given: own, then: release(1, 5*sec, 2*sec).ok(), want: can(now)},
		{name: "until after the old end", given: own, then: release(1, 5*sec, 90*sec).ok(), want: can(releasedBy(1, 1, "1m30s"))},
		{name: "late: ok", given: own, then: release(1, 31*sec, 40*sec).ok(), want: can(releasedBy(1, 1, "40s"))},
		{name: "late: ErrFenced", given: own, then: release(1, 31*sec, 40*sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "again: ok", given: soon, then: release(1, 6*sec, 10*sec).ok(), want: can(waiting)},
		{name: "again, until another time: either", given: soon, then: release(1, 6*sec, 12*sec).ok(),
			want: can(waiting, releasedBy(1, 1, "12s"))},
		{name: "again, when it is claimable: ok", given: atOnce, then: release(1, 6*sec, 2*sec).ok(),
			want: can(now, releasedBy(1, 1, "6s or earlier"))},
		{name: "again, when it is claimable: ErrFenced", given: atOnce, then: release(1, 6*sec, 2*sec).fenced(), want: can(now)},
		{name: "stale: ErrFenced", given: overtaken, then: release(1, 31*sec, 32*sec).fenced(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "absent: ErrNotFound", given: calls(begin(0).claimed(1), completeClaim(1, sec).ok(), prune(2*sec).count(1)),
			then: release(1, 3*sec, 4*sec).notFound(), want: can("absent")},
		{name: "claimed at visibleAt", given: soon, then: begin(10 * sec).claimed(2), want: can(claimedBy(3, 2, 40*sec))},
		{name: "refused one nanosecond before visibleAt", given: soon, then: begin(10*sec - 1).not(processing(1, 10*sec, 0)), want: can(waiting)},
		{name: "refused, with another UpdatedAt and a reason", given: soon,
			then: begin(6 * sec).not(processing(1, 10*sec, 5*sec)).because("try later"), want: can(waiting)},
		{name: "refused, with a token that Release changed", given: soon,
			then: begin(6 * sec).not(processing(1, 10*sec, 5*sec)).token("999"), want: can(waiting)},
		{name: "claimed at once", given: atOnce, then: begin(5 * sec).claimed(2), want: can(claimedBy(3, 2, 35*sec))},
		{name: "claimed at once by a lagging clock", given: atOnce, then: begin(3 * sec).claimed(2), want: can(claimedBy(3, 2, 33*sec))},
		{name: "read, and the lease is visibleAt", given: atOnce, then: lookup().found(processing(1, 2*sec, 0)).because("try later"), want: can(now)},
		{name: "read, and the lease is the release's now", given: atOnce,
			then: lookup().found(processing(1, 5*sec, 0)).because("try later"), want: can(now)},
		{name: "refused until after the old end", given: late, then: begin(60 * sec).not(processing(1, 90*sec, 0)),
			want: can(releasedBy(1, 1, "1m30s"))},
		{name: "completed all the same: ok", given: soon, then: completeClaim(1, 6*sec).ok(), want: can(doneBy(1, 6*sec))},
		{name: "completed all the same: ErrFenced", given: soon, then: completeClaim(1, 6*sec).fenced(), want: can(waiting)},
		{name: "completed by key: ok", given: soon, then: complete(6 * sec).ok(), want: can(doneBy(0, 6*sec))},
		{name: "completed by key: error", given: soon, then: complete(6 * sec).fenced(), want: can(waiting)},
		{name: "extended all the same: ok", given: soon, then: extend(1, 6*sec).not(processing(1, 36*sec, 0)), want: can(releasedBy(1, 1, "36s"))},
		{name: "extended all the same: ErrFenced", given: soon, then: extend(1, 6*sec).fenced(), want: can(waiting)},
		{name: "the nonce asks again: claimed", given: calls(beginAs("n", 0).claimed(1), release(1, 5*sec, 10*sec).ok()),
			then: beginAs("n", 6*sec).claimed(1).until(10 * sec).updated(0).token("100"), want: can(waiting)},
		{name: "the nonce asks again: refused", given: calls(beginAs("n", 0).claimed(1), release(1, 5*sec, 10*sec).ok()),
			then: beginAs("n", 6*sec).not(processing(1, 10*sec, 0)), want: can(waiting)},
		{name: "DONE by key: ok", given: byKey, then: release(1, 2*sec, 3*sec).ok(), want: can(doneBy(0, sec))},
		{name: "DONE by key: ErrFenced", given: byKey, then: release(1, 2*sec, 3*sec).fenced(), want: can(doneBy(0, sec))},
		{name: "DONE by another claim: ErrFenced", given: overtakenDone, then: release(1, 32*sec, 33*sec).fenced(), want: can(doneBy(2, 31*sec))},
		{name: "wrong: DONE by another claim, ok", given: overtakenDone, then: release(1, 32*sec, 33*sec).ok()},
		{name: "wrong: refused in time", given: own, then: release(1, 5*sec, 10*sec).fenced()},
		{name: "wrong: an untyped error in time", given: own, then: release(1, 5*sec, 10*sec).failed()},
		{name: "wrong: again, refused before it is claimable", given: soon, then: release(1, 6*sec, 10*sec).fenced()},
		{name: "wrong: stale, ok", given: overtaken, then: release(1, 31*sec, 32*sec).ok()},
		{name: "wrong: claimed before visibleAt", given: soon, then: begin(10*sec - 1).claimed(2)},
		{name: "wrong: claimed at the old end", given: late, then: begin(30 * sec).claimed(2)},
		{name: "wrong: refused at visibleAt", given: soon, then: begin(10 * sec).not(processing(1, 10*sec, 0))},
		{name: "wrong: refused until the old end", given: soon, then: begin(10 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: refused at once", given: atOnce, then: begin(5 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: attempts start again", given: soon, then: begin(10 * sec).claimed(1)},
		{name: "wrong: the reason is lost", given: soon, then: lookup().found(processing(1, 10*sec, 0))},
		{name: "wrong: another reason", given: soon, then: begin(6 * sec).not(processing(1, 10*sec, 0)).because("other")},
		{name: "wrong: completed after somebody else claimed", given: append(soon[:2:2], begin(10*sec).claimed(2)),
			then: completeClaim(1, 11*sec).ok()},
		{name: "wrong: released again after somebody else claimed", given: append(soon[:2:2], begin(10*sec).claimed(2)),
			then: release(1, 11*sec, 12*sec).ok()},
	})
}

func TestExtendProlongsTheClaim(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	extended := calls(begin(0).claimed(1), extend(1, 10*sec).not(processing(1, 40*sec, 0)).token("100"))
	buried := calls(begin(0).claimed(1), bury(1, sec).ok())
	finished := calls(begin(0).claimed(1), completeClaim(1, sec).ok())
	shorter := func() *call { return extend(1, 10*sec).lease(5 * sec) }
	run(t, []row{
		{name: "now+lease", given: own, then: extend(1, 10*sec).not(processing(1, 40*sec, 0)), want: can(claimedBy(1, 1, 40*sec))},
		{name: "another UpdatedAt", given: own, then: extend(1, 10*sec).not(processing(1, 40*sec, 10*sec)), want: can(claimedBy(1, 1, 40*sec))},
		{name: "a shorter lease: now+lease", given: own, then: shorter().not(processing(1, 15*sec, 0)), want: can(claimedBy(1, 1, 15*sec))},
		{name: "a shorter lease: the later end", given: own, then: shorter().not(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "late: ok", given: own, then: extend(1, 31*sec).not(processing(1, 61*sec, 0)), want: can(claimedBy(1, 1, 61*sec))},
		{name: "late: ErrFenced", given: own, then: extend(1, 31*sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "stale: ErrFenced", given: overtaken, then: extend(1, 31*sec).fenced(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "DEAD: ErrFenced", given: buried, then: extend(1, 2*sec).fenced(), want: can("DEAD")},
		{name: "DONE by this claim: error", given: finished, then: extend(1, 2*sec).fenced(), want: can(doneBy(1, sec))},
		{name: "DONE by this claim: ok, and said so", given: finished, then: extend(1, 2*sec).not(done(1, sec)), want: can(doneBy(1, sec))},
		{name: "lost: either", given: own, then: extend(1, 10*sec).lost(), want: can(claimedBy(1, 1, 30*sec), claimedBy(1, 1, 40*sec))},
		{name: "no times told: either end", contract: model.Contract{NoTimes: true}, given: calls(begin(0).claimed(1)),
			then: shorter().not(model.Record{State: model.Processing, Attempts: 1}), want: can(claimedBy(1, 1, 15*sec), claimedBy(1, 1, 30*sec))},
		{name: "extended: refused at the old end", given: extended, then: begin(30 * sec).not(processing(1, 40*sec, 0)), want: can(claimedBy(1, 1, 40*sec))},
		{name: "extended: taken over at the new end", given: extended, then: begin(40 * sec).claimed(2), want: can(claimedBy(3, 2, 70*sec))},
		{name: "extended: the owner completes after the old end", given: extended, then: completeClaim(1, 35*sec).ok(), want: can(doneBy(1, 35*sec))},
		{name: "wrong: neither end", given: own, then: extend(1, 10*sec).not(processing(1, 41*sec, 0))},
		{name: "wrong: the old end, which is earlier", given: own, then: extend(1, 10*sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: old end plus lease", given: own, then: extend(1, 10*sec).not(processing(1, 60*sec, 0))},
		{name: "wrong: another token", given: own, then: extend(1, 10*sec).not(processing(1, 40*sec, 0)).token("7")},
		{name: "wrong: counted as an attempt", given: own, then: extend(1, 10*sec).not(processing(2, 40*sec, 0))},
		{name: "wrong: counted as an attempt, no times told", contract: model.Contract{NoTimes: true}, given: own,
			then: extend(1, 10*sec).not(processing(2, 40*sec, 0))},
		{name: "wrong: no record told", given: own, then: extend(1, 10*sec).ok()},
		{name: "wrong: refused in time", given: own, then: extend(1, 10*sec).fenced()},
		{name: "wrong: stale, ok", given: overtaken, then: extend(1, 31*sec).not(processing(2, 61*sec, 0))},
		{name: "wrong: stale, ok with its own record", given: overtaken, then: extend(1, 31*sec).not(processing(1, 61*sec, 0)).token("100")},
		{name: "wrong: stale, ok with nothing", given: overtaken, then: extend(1, 31*sec).ok()},
		{name: "wrong: DEAD, ok", given: buried, then: extend(1, 2*sec).not(processing(1, 32*sec, 0))},
		{name: "wrong: DONE by this claim, ok as if claimed", given: finished, then: extend(1, 2*sec).not(processing(1, 32*sec, 0))},
		{name: "wrong: extended, and taken over at the old end", given: extended, then: begin(30 * sec).claimed(2)},
		{name: "wrong: extended, and refused at the new end", given: extended, then: begin(40 * sec).not(processing(1, 40*sec, 0))},
	})
}

func TestBuryGivesUpAndReplayOpensAgain(t *testing.T) {
	own := calls(begin(0).claimed(1))
	overtaken := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	buried := calls(begin(0).claimed(1), bury(1, 5*sec).ok())
	open := append(buried[:2:2], replay(50*sec).ok())
	replayed := "PROCESSING, replayed, attempts 1, claimable at once"
	run(t, []row{
		{name: "bury in time", given: own, then: bury(1, 5*sec).ok(), want: can("DEAD")},
		{name: "bury again: ok", given: buried, then: bury(1, 6*sec).ok(), want: can("DEAD")},
		{name: "bury again: ErrFenced", given: buried, then: bury(1, 6*sec).fenced(), want: can("DEAD")},
		{name: "bury late: ok", given: own, then: bury(1, 31*sec).ok(), want: can("DEAD")},
		{name: "bury late: ErrFenced", given: own, then: bury(1, 31*sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "bury stale: ErrFenced", given: overtaken, then: bury(1, 31*sec).fenced(), want: can(claimedBy(2, 2, 60*sec))},
		{name: "release DEAD: ErrFenced", given: buried, then: release(1, 6*sec, 7*sec).fenced(), want: can("DEAD")},
		{name: "prune spares DEAD", given: buried, then: prune(900 * sec).ok(), want: can("DEAD")},
		{name: "read DEAD and why", given: buried, then: lookup().found(dead(1)).because("poison"), want: can("DEAD")},
		{name: "replay DEAD", given: buried, then: replay(50 * sec).ok(), want: can(replayed)},
		{name: "replay absent: error", then: replay(0).notFound(), want: can("absent")},
		{name: "replay a claim: error", given: own, then: replay(sec).fenced(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "replay an expired claim: error", given: own, then: replay(31 * sec).notFound(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "replay DONE: error", given: calls(begin(0).claimed(1), completeClaim(1, sec).ok()), then: replay(2 * sec).failed(),
			want: can(doneBy(1, sec))},
		{name: "replayed: claimed at once, attempts kept", given: open, then: begin(50 * sec).claimed(2), want: can(claimedBy(4, 2, 80*sec))},
		{name: "replayed: claimed by a lagging clock", given: open, then: begin(40 * sec).claimed(2), want: can(claimedBy(4, 2, 70*sec))},
		{name: "replayed: refused to a lagging clock", given: open, then: begin(40 * sec).not(processing(1, 50*sec, 50*sec)), want: can(replayed)},
		{name: "replayed: earlier claims are stale", given: open, then: completeClaim(1, 51*sec).fenced(), want: can(replayed)},
		{name: "replayed: replay again, error", given: open, then: replay(51 * sec).notFound(), want: can(replayed)},
		{name: "replayed: read, with no lease", given: open,
			then: lookup().found(model.Record{State: model.Processing, Attempts: 1}), want: can(replayed)},
		{name: "replayed: read, with a lease that ends now and a new token", given: open,
			then: lookup().found(processing(1, 50*sec, 50*sec)).token("777"), want: can(replayed)},
		{name: "wrong: bury in time, refused", given: own, then: bury(1, 5*sec).fenced()},
		{name: "wrong: bury stale, ok", given: overtaken, then: bury(1, 31*sec).ok()},
		{name: "wrong: release DEAD, ok", given: buried, then: release(1, 6*sec, 7*sec).ok()},
		{name: "wrong: read DEAD for no reason", given: buried, then: lookup().found(dead(1))},
		{name: "wrong: buried, and taken over", given: buried, then: begin(30 * sec).claimed(2)},
		{name: "wrong: replay DEAD, refused", given: buried, then: replay(50 * sec).notFound()},
		{name: "wrong: replay absent, ok", then: replay(0).ok()},
		{name: "wrong: replay a claim, ok", given: own, then: replay(sec).ok()},
		{name: "wrong: replay DONE, ok", given: calls(begin(0).claimed(1), completeClaim(1, sec).ok()), then: replay(2 * sec).ok()},
		{name: "wrong: replayed, and attempts start again", given: open, then: begin(50 * sec).claimed(1)},
		{name: "wrong: replayed, and refused", given: open, then: begin(50 * sec).not(processing(1, 80*sec, 50*sec))},
		{name: "wrong: replayed, and still DEAD", given: open, then: begin(50 * sec).not(dead(1))},
		{name: "wrong: replayed, and the old claim completes", given: open, then: completeClaim(1, 51*sec).ok()},
		{name: "wrong: replayed and claimed, and the old claim completes", given: append(open[:3:3], begin(50*sec).claimed(2)),
			then: completeClaim(1, 51*sec).ok()},
		{name: "wrong: replayed and claimed with the old token", given: open, then: begin(50 * sec).claimed(2).token("100")},
	})
}

func TestTokensThatStartAgainWithTheRecordCannotBeTold(t *testing.T) {
	perRecord := model.Contract{TokenPerRecord: true}
	again := calls(begin(0).claimed(1).token(""), completeClaim(1, sec).ok(), prune(2*sec).count(1), begin(3*sec).claimed(1).token(""))
	live := claimedBy(4, 1, 33*sec)
	run(t, []row{
		{name: "a claim from before a forgetting: ErrFenced", contract: perRecord, given: again, then: completeClaim(1, 4*sec).fenced(), want: can(live)},
		{name: "a claim from before a forgetting: ok", contract: perRecord, given: again, then: completeClaim(1, 4*sec).ok(),
			want: can(live, doneBy(4, 4*sec))},
		{name: "it completed, and the current claim completes again", contract: perRecord,
			given: append(again[:4:4], completeClaim(1, 4*sec).ok()), then: completeClaim(4, 5*sec).ok(), want: can(doneBy(4, 4*sec), doneBy(4, 5*sec))},
		{name: "DONE: a claim from before a forgetting: ok", contract: perRecord,
			given: append(again[:4:4], completeClaim(4, 4*sec).ok()), then: completeClaim(1, 5*sec).ok(), want: can(doneBy(4, 4*sec))},
		{name: "DEAD: a claim from before a forgetting buries again: ok", contract: perRecord,
			given: append(again[:4:4], bury(4, 4*sec).ok()), then: bury(1, 5*sec).ok(), want: can("DEAD")},
		{name: "wrong: DEAD, a claim from before a forgetting completes", contract: perRecord,
			given: append(again[:4:4], bury(4, 4*sec).ok()), then: completeClaim(1, 5*sec).ok()},
		{name: "wrong: DONE, a claim from before a forgetting writes a second effect", contract: perRecord,
			given: append(again[:4:4], commit(4, 4*sec, 1).ok()), then: commit(1, 5*sec, 1).ok()},
		{name: "wrong: stale within one record, ok", contract: perRecord,
			given: calls(begin(0).claimed(1).token(""), begin(30*sec).claimed(2).token("")), then: completeClaim(1, 31*sec).ok()},
		{name: "wrong: forgotten, ok", contract: perRecord, given: again[:3], then: completeClaim(1, 4*sec).ok()},
	})
}

func TestLookupTellsTheRecord(t *testing.T) {
	own := calls(begin(0).claimed(1))
	run(t, []row{
		{name: "absent", then: lookup().ok(), want: can("absent")},
		{name: "absent, as ErrNotFound", then: lookup().notFound(), want: can("absent")},
		{name: "claimed", given: own, then: lookup().found(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "DONE", given: calls(begin(0).claimed(1), completeClaim(1, sec).ok()), then: lookup().found(done(1, sec)), want: can(doneBy(1, sec))},
		{name: "lost", given: own, then: lookup().lost(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a lost completion is seen", given: calls(begin(0).claimed(1), completeClaim(1, sec).lost()),
			then: lookup().found(done(1, sec)), want: can(doneBy(1, sec))},
		{name: "wrong: absent, and found", then: lookup().found(processing(1, 30*sec, 0))},
		{name: "wrong: claimed, and not found", given: own, then: lookup().ok()},
		{name: "wrong: claimed, ErrNotFound", given: own, then: lookup().notFound()},
		{name: "wrong: claimed, and DONE", given: own, then: lookup().found(done(1, 0))},
		{name: "wrong: an untyped error", given: own, then: lookup().failed()},
	})
}

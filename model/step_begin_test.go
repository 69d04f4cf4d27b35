package model_test

import (
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestBeginOnAnAbsentRecordClaimsItAsTheFirstAttempt(t *testing.T) {
	first := can(claimedBy(1, 1, 30*sec))
	run(t, []row{
		{name: "claimed", then: begin(0).claimed(1), want: first},
		{name: "claimed, and the store keeps no token", then: begin(0).claimed(1).token(""), want: first},
		{name: "wrong: not claimed, nothing there", then: begin(0).not(model.Record{})},
		{name: "wrong: not claimed, somebody else's claim", then: begin(0).not(processing(1, 30*sec, 0))},
		{name: "wrong: not claimed, DONE", then: begin(0).not(done(1, 0))},
		{name: "wrong: attempts 0", then: begin(0).claimed(0)},
		{name: "wrong: attempts 2", then: begin(0).claimed(2)},
		{name: "wrong: a lease that is too long", then: begin(0).claimed(1).until(31 * sec)},
		{name: "wrong: a lease one nanosecond short", then: begin(0).claimed(1).until(30*sec - 1)},
		{name: "wrong: no lease told", then: begin(0).claimed(1).until(-1 * 1000000 * sec)},
		{name: "wrong: another UpdatedAt", then: begin(0).claimed(1).updated(sec)},
		{name: "wrong: claimed, and the record says DONE", then: begin(0).claimed(1).found(done(1, 0))},
		{name: "wrong: an untyped error", then: begin(0).failed()},
		{name: "wrong: ErrRefused for fit input", then: begin(0).refused()},
		{name: "wrong: ErrFenced", then: begin(0).fenced()},
	})
}

func TestBeginOnALiveClaimIsRefusedWithTheRecordUnchanged(t *testing.T) {
	given := calls(begin(0).claimed(1))
	same := can(claimedBy(1, 1, 30*sec))
	run(t, []row{
		{name: "refused", given: given, then: begin(10 * sec).not(processing(1, 30*sec, 0)), want: same},
		{name: "refused, and told the owner's token", given: given,
			then: begin(10 * sec).not(processing(1, 30*sec, 0)).token("100"), want: same},
		{name: "refused one nanosecond before the end", given: given,
			then: begin(30*sec - 1).not(processing(1, 30*sec, 0)), want: same},
		{name: "refused by a clock that lags behind the claim", given: given,
			then: begin(-sec).not(processing(1, 30*sec, 0)), want: same},
		{name: "refused through the owner's own handle", given: given,
			then: begin(sec).not(processing(1, 30*sec, 0)), want: same},
		{name: "wrong: claimed as a second attempt", given: given, then: begin(10 * sec).claimed(2)},
		{name: "wrong: claimed as a first attempt", given: given, then: begin(10 * sec).claimed(1)},
		{name: "wrong: claimed one nanosecond before the end", given: given, then: begin(30*sec - 1).claimed(2)},
		{name: "wrong: attempts counted although refused", given: given, then: begin(sec).not(processing(2, 30*sec, 0))},
		{name: "wrong: the lease moved although refused", given: given, then: begin(sec).not(processing(1, 31*sec, 0))},
		{name: "wrong: UpdatedAt moved although refused", given: given, then: begin(sec).not(processing(1, 30*sec, sec))},
		{name: "wrong: a false DONE", given: given, then: begin(sec).not(done(1, 0))},
		{name: "wrong: a false absence", given: given, then: begin(sec).not(model.Record{})},
		{name: "wrong: another token", given: given, then: begin(sec).not(processing(1, 30*sec, 0)).token("7")},
		{name: "wrong: an untyped error", given: given, then: begin(sec).failed()},
	})
}

func TestBeginOnAnExpiredClaimTakesItOver(t *testing.T) {
	given := calls(begin(0).claimed(1))
	run(t, []row{
		{name: "at exactly LeaseUntil", given: given, then: begin(30 * sec).claimed(2), want: can(claimedBy(2, 2, 60*sec))},
		{name: "much later", given: given, then: begin(1000 * sec).claimed(2), want: can(claimedBy(2, 2, 1030*sec))},
		{name: "by the same handle", given: given, then: begin(31 * sec).claimed(2), want: can(claimedBy(2, 2, 61*sec))},
		{name: "a store that keeps UpdatedAt of the first claim", given: given,
			then: begin(30 * sec).claimed(2).updated(0), want: can(claimedBy(2, 2, 60*sec))},
		{name: "twice", given: calls(begin(0).claimed(1), begin(30*sec).claimed(2)),
			then: begin(60 * sec).claimed(3), want: can(claimedBy(3, 3, 90*sec))},
		{name: "wrong: refused at exactly LeaseUntil", given: given, then: begin(30 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: refused much later", given: given, then: begin(1000 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: attempts not counted", given: given, then: begin(30 * sec).claimed(1)},
		{name: "wrong: attempts counted twice", given: given, then: begin(30 * sec).claimed(3)},
		{name: "wrong: the old lease is told", given: given, then: begin(30 * sec).claimed(2).until(30 * sec)},
		{name: "wrong: the same token again", given: given, then: begin(30 * sec).claimed(2).token("100")},
	})
}

func TestBeginOnDoneOrDeadIsRefused(t *testing.T) {
	given := calls(begin(0).claimed(1), completeClaim(1, 5*sec).ok())
	buried := calls(begin(0).claimed(1), bury(1, 5*sec).ok())
	kept := calls(begin(0).claimed(1), completeResult(1, 5*sec, "42").ok())
	empty := calls(begin(0).claimed(1), completeResult(1, 5*sec, "").ok())
	same := can(doneBy(1, 5*sec))
	run(t, []row{
		{name: "DONE", given: given, then: begin(6 * sec).not(done(1, 5*sec)), want: same},
		{name: "DONE, long after the lease", given: given, then: begin(6000 * sec).not(done(1, 5*sec)), want: same},
		{name: "DONE, by a nonce", given: given, then: beginAs("n", 6*sec).not(done(1, 5*sec)), want: same},
		{name: "DONE, by a clock that lags", given: given, then: begin(-6000 * sec).not(done(1, 5*sec)), want: same},
		{name: "a kept result comes back", given: kept, then: begin(6 * sec).not(done(1, 5*sec)).result("42"), want: same},
		{name: "an empty result comes back as empty", given: empty, then: begin(6 * sec).not(done(1, 5*sec)).result(""), want: same},
		{name: "an empty result comes back as none", given: empty, then: begin(6 * sec).not(done(1, 5*sec)), want: same},
		{name: "DEAD", given: buried, then: begin(600 * sec).not(dead(1)), want: can("DEAD")},
		{name: "DEAD, and told why", given: buried, then: begin(600 * sec).not(dead(1)).because("poison"), want: can("DEAD")},
		{name: "wrong: DONE is claimed", given: given, then: begin(6 * sec).claimed(1)},
		{name: "wrong: DONE is claimed after the lease", given: given, then: begin(60 * sec).claimed(2)},
		{name: "wrong: DONE reads as PROCESSING", given: given, then: begin(6 * sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: DONE reads as absent", given: given, then: begin(6 * sec).not(model.Record{})},
		{name: "wrong: UpdatedAt is the claim's", given: given, then: begin(6 * sec).not(done(1, 0))},
		{name: "wrong: UpdatedAt moved by asking", given: given, then: begin(6 * sec).not(done(1, 6*sec))},
		{name: "wrong: the kept result is another", given: kept, then: begin(6 * sec).not(done(1, 5*sec)).result("43")},
		{name: "wrong: the kept result is lost", given: kept, then: begin(6 * sec).not(done(1, 5*sec))},
		{name: "wrong: DEAD is claimed", given: buried, then: begin(600 * sec).claimed(2)},
		{name: "wrong: DEAD for another reason", given: buried, then: begin(600 * sec).not(dead(1)).because("other")},
		{name: "wrong: DEAD with the attempts forgotten", given: buried, then: begin(600 * sec).not(dead(7))},
	})
}

func TestBeginAsTheOwnerIsAnsweredAsTheOwner(t *testing.T) {
	given := calls(beginAs("n", 0).claimed(1))
	lost := calls(beginAs("n", 0).lost())
	mine := func() *call { // the owner asks again
		return beginAs("n", 10*sec).claimed(1).until(30 * sec).updated(0).token("100")
	}
	run(t, []row{
		{name: "claimed, the record unchanged", given: given, then: mine(), want: can(claimedBy(1, 1, 30*sec))},
		{name: "claimed through another handle", given: given, then: mine().handle(2), want: can(claimedBy(1, 1, 30*sec))},
		{name: "claimed though the first answer was lost", given: lost, then: mine(),
			want: can(claimedBy(2, 1, 30*sec))},
		{name: "claimed afresh, for the lost call never arrived", given: lost,
			then: beginAs("n", 10*sec).claimed(1), want: can(claimedBy(2, 1, 40*sec))},
		{name: "the lost claim is presented by the second answer", given: calls(beginAs("n", 0).lost(), mine()),
			then: completeClaim(2, 11*sec).ok(), want: can(doneBy(2, 11*sec))},
		{name: "both answers present one claim", given: calls(beginAs("n", 0).claimed(1), mine()),
			then: completeClaim(2, 11*sec).ok(), want: can(doneBy(1, 11*sec))},
		{name: "expired: taken over by its own nonce", given: given,
			then: beginAs("n", 30*sec).claimed(2), want: can(claimedBy(2, 2, 60*sec))},
		{name: "another nonce is refused", given: given,
			then: beginAs("other", 10*sec).not(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "no nonce is refused", given: given,
			then: begin(10 * sec).not(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "taken over by another: refused", given: calls(beginAs("n", 0).claimed(1), begin(30*sec).claimed(2)),
			then: beginAs("n", 31*sec).not(processing(2, 60*sec, 30*sec)), want: can(claimedBy(2, 2, 60*sec))},
		{name: "DONE: refused", given: calls(beginAs("n", 0).claimed(1), completeClaim(1, sec).ok()),
			then: beginAs("n", 2*sec).not(done(1, sec)), want: can(doneBy(1, sec))},
		{name: "after Extend the record is the extended one",
			given: calls(beginAs("n", 0).claimed(1), extend(1, 10*sec).ok().not(processing(1, 40*sec, 0))),
			then:  beginAs("n", 35*sec).claimed(1).until(40 * sec).updated(0).token("100"), want: can(claimedBy(1, 1, 40*sec))},
		{name: "wrong: the owner is refused", given: given, then: beginAs("n", 10*sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: the owner is refused, whose first answer was lost", given: calls(beginAs("n", 0).applied()),
			then: beginAs("n", 10*sec).not(processing(1, 30*sec, 0))},
		{name: "wrong: counted as another attempt", given: given, then: beginAs("n", 10*sec).claimed(2)},
		{name: "wrong: the lease prolonged", given: given, then: mine().until(40 * sec)},
		{name: "wrong: UpdatedAt moved", given: given, then: mine().updated(10 * sec)},
		{name: "wrong: a new token for the same claim", given: given, then: mine().token("555")},
		{name: "wrong: another nonce is answered as the owner", given: given,
			then: beginAs("other", 10*sec).claimed(1).until(30 * sec).updated(0).token("100")},
		{name: "wrong: no nonce is answered as the owner", given: given,
			then: begin(10 * sec).claimed(1).until(30 * sec).updated(0).token("100")},
		{name: "wrong: an expired claim is granted unchanged", given: given,
			then: beginAs("n", 30*sec).claimed(1).until(30 * sec).updated(0).token("100")},
	})
}

func TestBeginWithEnoughAttemptsBuries(t *testing.T) {
	two := model.Contract{MaxAttempts: 2}
	spent := calls(begin(0).claimed(1), begin(30*sec).claimed(2))
	gone := append(spent[:2:2], begin(60*sec).not(dead(2)))
	replayed := append(gone[:3:3], replay(70*sec).ok())
	run(t, []row{
		{name: "the last attempt is claimed", contract: two, given: spent[:1],
			then: begin(30 * sec).claimed(2), want: can(claimedBy(2, 2, 60*sec))},
		{name: "one more is DEAD", contract: two, given: spent, then: begin(60 * sec).not(dead(2)), want: can("DEAD")},
		{name: "DEAD stays", contract: two, given: gone, then: begin(99 * sec).not(dead(2)), want: can("DEAD")},
		{name: "the last claim lives until its lease ends", contract: two, given: spent,
			then: begin(59 * sec).not(processing(2, 60*sec, 30*sec)), want: can(claimedBy(2, 2, 60*sec))},
		{name: "the last owner completes", contract: two, given: spent,
			then: completeClaim(2, 59*sec).ok(), want: can(doneBy(2, 59*sec))},
		{name: "replayed, and claimed at once", contract: two, given: replayed,
			then: begin(70 * sec).claimed(3), want: can(claimedBy(5, 3, 100*sec))},
		{name: "replayed, and its attempts still spent", contract: two, given: replayed,
			then: begin(70 * sec).not(dead(2)), want: can("DEAD")},
		{name: "a sweeper made it DEAD before Replay asked", contract: two, given: spent,
			then: replay(60 * sec).ok(), want: can("PROCESSING, replayed, attempts 2, claimable at once")},
		{name: "wrong: claimed beyond the bound", contract: two, given: spent, then: begin(60 * sec).claimed(3)},
		{name: "wrong: DEAD before the last lease ends", contract: two, given: spent, then: begin(59 * sec).not(dead(2))},
		{name: "wrong: DEAD after one attempt", contract: two, given: spent[:1], then: begin(30 * sec).not(dead(1))},
		{name: "wrong: refused for ever and never DEAD", contract: two, given: spent,
			then: begin(60 * sec).not(processing(2, 60*sec, 30*sec))},
		{name: "wrong: DEAD without a bound", given: spent, then: begin(60 * sec).not(dead(2))},
		{name: "wrong: replayed before the last lease ends", contract: two, given: spent, then: replay(59 * sec).ok()},
		{name: "wrong: the last owner refused in time", contract: two,
			given: append(spent[:2:2], lookup().found(processing(2, 60*sec, 30*sec))), then: completeClaim(2, 59*sec).fenced()},
	})
}

func TestTokensNameOneClaimForAllTime(t *testing.T) {
	ordered, perRecord := model.Contract{OrderedToken: true}, model.Contract{TokenPerRecord: true}
	both := model.Contract{OrderedToken: true, TokenPerRecord: true}
	first := func(token string) []*call {
		return calls(begin(0).claimed(1).token(token), completeClaim(1, sec).ok(), prune(2*sec).count(1))
	}
	again := func(attempts int) *call { return begin(3 * sec).claimed(attempts) }
	fresh := can(claimedBy(4, 1, 33*sec))
	run(t, []row{
		{name: "another token after Prune", given: first("a"), then: again(1).token("b"), want: fresh},
		{name: "no token after Prune", given: first("a"), then: again(1).token(""), want: fresh},
		{name: "unordered tokens may go down", given: first("9"), then: again(1).token("3"), want: fresh},
		{name: "ordered tokens go up", contract: ordered, given: first("9"), then: again(1).token("10"), want: fresh},
		{name: "the largest ordered token", contract: ordered, then: begin(0).claimed(1).token("18446744073709551615"),
			want: can(claimedBy(1, 1, 30*sec))},
		{name: "per record: the same token after Prune", contract: perRecord, given: first("1"), then: again(1).token("1"), want: fresh},
		{name: "per record and ordered: from the start after Prune", contract: both, given: first("9"), then: again(1).token("1"), want: fresh},
		{name: "wrong: the same token after Prune", given: first("a"), then: again(1).token("a")},
		{name: "wrong: the same ordered token after Prune", contract: ordered, given: first("9"), then: again(1).token("9")},
		{name: "wrong: an ordered token goes down after Prune", contract: ordered, given: first("9"), then: again(1).token("8")},
		{name: "wrong: an ordered token goes down at a takeover", contract: ordered,
			given: calls(begin(0).claimed(1).token("9")), then: begin(30 * sec).claimed(2).token("8")},
		{name: "wrong: an ordered token compared as text", contract: ordered, given: first("10"), then: again(1).token("9")},
		{name: "wrong: an ordered token that is no number", contract: ordered, then: begin(0).claimed(1).token("a")},
		{name: "wrong: an ordered token that is negative", contract: ordered, then: begin(0).claimed(1).token("-1")},
		{name: "wrong: an ordered token is missing", contract: ordered, then: begin(0).claimed(1).token("")},
		{name: "wrong: per record, the same token at a takeover", contract: perRecord,
			given: calls(begin(0).claimed(1).token("1")), then: begin(30 * sec).claimed(2).token("1")},
		{name: "wrong: a takeover after a lost one repeats the first token",
			given: calls(begin(0).claimed(1).token("1"), begin(30*sec).applied()), then: begin(60 * sec).claimed(3).token("1")},
	})
}

func TestFactsAboutWhatAStoreKeepsSpareItTheRest(t *testing.T) {
	noAttempts, noTimes := model.Contract{NoAttempts: true}, model.Contract{NoTimes: true}
	inbox := model.Contract{NoLease: true}
	none := with(processing(1, 0, 0), func(r *model.Record) { *r = model.Record{State: model.Processing, Attempts: 1} })
	run(t, []row{
		{name: "no attempts told", contract: noAttempts, then: begin(0).claimed(0), want: can(claimedBy(1, 1, 30*sec))},
		{name: "no attempts told at a takeover", contract: noAttempts, given: calls(begin(0).claimed(0)),
			then: begin(30 * sec).claimed(0), want: can(claimedBy(2, 2, 60*sec))},
		{name: "no times told", contract: noTimes, then: begin(0).found(none), want: can(claimedBy(1, 1, 30*sec))},
		{name: "no times told to the refused", contract: noTimes, given: calls(begin(0).found(none)),
			then: begin(sec).not(none), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a claim that is final has no lease to tell", contract: inbox, then: begin(0).found(with(none, func(r *model.Record) {
			r.UpdatedAt = epoch.Time()
		})), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a claim that is final is refused for ever", contract: inbox, given: calls(begin(0).claimed(1)),
			then: begin(9000 * sec).not(processing(1, 30*sec, 0)), want: can(claimedBy(1, 1, 30*sec))},
		{name: "a claim that is final completes late", contract: inbox, given: calls(begin(0).claimed(1)),
			then: completeClaim(1, 9000*sec).ok(), want: can(doneBy(1, 9000*sec))},
		{name: "a claim that is final is released", contract: inbox, given: calls(begin(0).claimed(1), release(1, sec, 2*sec).ok()),
			then: begin(2 * sec).claimed(2), want: can(claimedBy(3, 2, 32*sec))},
		{name: "wrong: a claim that is final is taken over", contract: inbox, given: calls(begin(0).claimed(1)),
			then: begin(9000 * sec).claimed(2)},
		{name: "wrong: a final claim's owner is refused", contract: inbox, given: calls(begin(0).claimed(1)),
			then: completeClaim(1, 9000*sec).fenced()},
		{name: "wrong: no times told, and claimed too early", contract: noTimes, given: calls(begin(0).found(none)),
			then: begin(29 * sec).claimed(2)},
		{name: "wrong: no attempts told, and refused too long", contract: noAttempts, given: calls(begin(0).claimed(0)),
			then: begin(30 * sec).not(processing(0, 30*sec, 0))},
	})
}

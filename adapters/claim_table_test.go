package adapters_test

import (
	"strings"

	"github.com/effectonce/effectonce/model"
)

func (k key) release(claim model.Record, s, visible int, reason string, want error) {
	k.t.Helper()
	k.answers("Release", k.store.Release(k.t.Context(), "billing", "m-1", claim, at(s), at(visible), reason), want)
}

// extend prolongs by 10 s and answers the record, which must be what the store holds from then on.
func (k key) extend(claim model.Record, s int, want error) model.Record {
	k.t.Helper()
	r, err := k.store.Extend(k.t.Context(), "billing", "m-1", claim, at(s), lease)
	k.answers("Extend", err, want)
	if err == nil {
		k.holds(r)
	} else {
		k.same("a refused Extend", r, model.Record{})
	}
	return r
}

func (k key) bury(claim model.Record, s int, reason string, want error) {
	k.t.Helper()
	k.answers("Bury", k.store.Bury(k.t.Context(), "billing", "m-1", claim, at(s), reason), want)
}

func (k key) replay(s int, want error) {
	k.t.Helper()
	k.answers("Replay", k.store.Replay(k.t.Context(), "billing", "m-1", at(s)), want)
}

func (k key) result(claim model.Record, s int, result []byte, want error) {
	k.t.Helper()
	k.answers("CompleteResult", k.store.CompleteResult(k.t.Context(), "billing", "m-1", claim, at(s), result), want)
}

// powerless demands that every call of a claim is refused and changes nothing.
func (k key) powerless(claim model.Record, s int, want error) {
	k.t.Helper()
	before, _, err := k.store.Lookup(k.t.Context(), "billing", "m-1")
	if err != nil {
		k.t.Fatal(err)
	}
	k.finish(claim, s, want)
	k.commit(claim, s, "powerless", want)
	k.result(claim, s, []byte("powerless"), want)
	k.release(claim, s, s, "powerless", want)
	k.extend(claim, s, want)
	k.bury(claim, s, "powerless", want)
	k.holds(before)
	k.effectIDs()
}

func released(claim model.Record, s, visible int, reason string) model.Record {
	claim.LeaseUntil, claim.UpdatedAt, claim.Reason = at(visible), at(s), reason
	return claim
}

func buried(claim model.Record, s int, reason string) model.Record {
	return model.Record{State: model.Dead, Attempts: claim.Attempts, UpdatedAt: at(s), Token: claim.Token, Reason: reason}
}

// claimTransitions are the rows of the table on what an owner does with its claim beside completing it.
var claimTransitions = []struct {
	name string
	run  func(key)
}{
	{"Release: refused with the reason until visibleAt, claimable from then on", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 2, 5, "card declined", nil)
		k.holds(released(c, 2, 5, "card declined"))
		k.refused(4, released(c, 2, 5, "card declined"))
		next := k.claimed(5, 2) // a record without the reason
		k.holds(next)
		k.rises(c, next)
	}},
	{"Release at once, with a visibleAt that is past, or none", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 5, 3, "past", nil)
		k.holds(released(c, 5, 3, "past"))
		c = k.claimed(5, 2)
		if err := k.store.Release(k.t.Context(), "billing", "m-1", c, at(6), never, "none"); err != nil {
			k.t.Error(err)
		}
		k.holds(released(c, 6, 6, "none"))
		k.claimed(6, 3)
	}},
	{"Release may end later than the lease did", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 1, 60, "", nil)
		k.refused(59, released(c, 1, 60, ""))
		k.claimed(60, 2)
	}},
	{"Release again by the same claim: the last one counts", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 1, 8, "first", nil)
		k.release(c, 2, 4, "second", nil)
		k.refused(3, released(c, 2, 4, "second"))
		k.release(c, 5, 7, "third", nil) // it is claimable, and nobody did
		k.refused(6, released(c, 5, 7, "third"))
	}},
	{"a released claim can do nothing but be released again", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 1, 8, "back", nil)
		k.finish(c, 2, model.ErrFenced)
		k.commit(c, 2, "late", model.ErrFenced)
		k.result(c, 2, []byte("late"), model.ErrFenced)
		k.extend(c, 2, model.ErrFenced)
		k.bury(c, 2, "late", model.ErrFenced)
		k.holds(released(c, 1, 8, "back"))
		k.effectIDs()
	}},
	{"a nonce no longer owns what was released", func(k key) {
		c := k.again("n1", 0, true)
		k.release(c, 1, 5, "", nil)
		k.again("n1", 4, false)
		if r := k.again("n1", 5, true); r.Attempts != 2 {
			k.t.Errorf("attempts %d, want 2", r.Attempts)
		}
	}},
	{"Complete by key finishes what was released, and the reason is gone", func(k key) {
		c := k.claimed(0, 1)
		k.release(c, 1, 5, "oh", nil)
		k.complete(2, nil)
		k.holds(done(c, 2))
		k.refused(50, done(c, 2))
		k.finish(c, 51, nil)
	}},
	{"a claim after a release is a whole one", func(k key) {
		k.release(k.claimed(0, 1), 1, 1, "", nil)
		c := k.claimed(1, 2)
		k.extend(c, 2, nil)
		k.finish(c, 3, nil)
		k.holds(done(c, 3))
	}},
	{"Release, Extend and Bury past the lease, while nobody took over", func(k key) {
		k.release(k.claimed(0, 1), 30, 40, "late", nil)
		c := k.claimed(40, 2)
		if r := k.extend(c, 60, nil); !r.LeaseUntil.Equal(at(70)) || r.Attempts != 2 {
			k.t.Errorf("Extend answers %+v", r)
		}
		k.refused(69, released(c, 40, 70, ""))
		c = k.claimed(70, 3)
		k.bury(c, 90, "late", nil)
		k.holds(buried(c, 90, "late"))
	}},
	{"Extend: the lease ends later, and nothing else changes", func(k key) {
		c := k.claimed(0, 1)
		k.same("Extend", k.extend(c, 4, nil), released(c, 0, 14, ""))
		k.refused(13, released(c, 0, 14, ""))
		k.finish(c, 13, nil)
		k.holds(done(c, 13))
	}},
	{"Extend never shortens", func(k key) {
		c := k.claimed(5, 1)
		k.same("Extend", k.extend(c, 3, nil), c)
		k.refused(14, c)
	}},
	{"Extend keeps the nonce", func(k key) {
		c := k.again("n1", 0, true)
		k.extend(c, 8, nil)
		k.same("BeginAs", k.again("n1", 15, true), released(c, 0, 18, ""))
	}},
	{"after DONE its own claim may only complete again", func(k key) {
		c := k.claimed(0, 1)
		k.finish(c, 1, nil)
		k.extend(c, 2, model.ErrFenced)
		k.release(c, 2, 2, "", model.ErrFenced)
		k.bury(c, 2, "", model.ErrFenced)
		k.holds(done(c, 1))
	}},
	{"a claim that was taken over is powerless", func(k key) {
		stale := k.claimed(0, 1)
		k.claimed(10, 2)
		k.powerless(stale, 11, model.ErrFenced)
		k.powerless(model.Record{}, 11, model.ErrFenced)
	}},
	{"a claim that was released and taken over is powerless", func(k key) {
		stale := k.claimed(0, 1)
		k.release(stale, 1, 1, "", nil)
		k.claimed(2, 2)
		k.powerless(stale, 3, model.ErrFenced)
	}},
	{"without a record every claim is powerless", func(k key) { k.powerless(model.Record{Token: "1"}, 0, model.ErrNotFound) }},
	{"Bury: refused with the reason, for good", func(k key) {
		c := k.claimed(0, 1)
		k.bury(c, 3, "poison\x00\xff", nil)
		k.refused(4, buried(c, 3, "poison\x00\xff"))
		k.refused(4000, buried(c, 3, "poison\x00\xff"))
		k.again("n1", 4000, false)
		k.bury(c, 5, "other", nil)
		k.holds(buried(c, 3, "poison\x00\xff"))
	}},
	{"nothing but Replay opens a dead letter", func(k key) {
		c := k.claimed(0, 1)
		k.bury(c, 3, "poison", nil)
		k.complete(4, model.ErrFenced)
		k.finish(c, 4, model.ErrFenced)
		k.commit(c, 4, "late", model.ErrFenced)
		k.result(c, 4, nil, model.ErrFenced)
		k.release(c, 4, 4, "late", model.ErrFenced)
		k.extend(c, 4, model.ErrFenced)
		k.prune(4000, 0)
		k.holds(buried(c, 3, "poison"))
		k.effectIDs()
	}},
	{"Replay: claimable at once, attempts kept, every earlier claim stale", func(k key) {
		first := k.claimed(0, 1)
		second := k.again("n2", 10, true)
		k.bury(second, 11, "poison", nil)
		k.replay(12, nil)
		r, found, err := k.store.Lookup(k.t.Context(), "billing", "m-1")
		if err != nil || !found || r.State != model.Processing || r.Attempts != 2 || r.Reason != "" || r.LeaseUntil.After(at(12)) {
			k.t.Errorf("after Replay the record is %+v, %v, %v", r, found, err)
		}
		k.powerless(first, 12, model.ErrFenced)
		k.powerless(second, 12, model.ErrFenced)
		k.again("n2", 11, false) // its caller's clock is behind
		third := k.claimed(12, 3)
		k.rises(second, third)
		k.powerless(second, 13, model.ErrFenced)
		k.again("n2", 13, false)
		k.finish(third, 14, nil)
	}},
	{"a letter that was replayed can be buried again", func(k key) {
		k.bury(k.claimed(0, 1), 1, "once", nil)
		k.replay(2, nil)
		c := k.claimed(2, 2)
		k.bury(c, 3, "twice", nil)
		k.holds(buried(c, 3, "twice"))
		k.replay(4, nil)
		k.claimed(4, 3)
	}},
	{"Replay of anything but a dead letter is refused", func(k key) {
		k.replay(0, model.ErrNotFound)
		c := k.claimed(0, 1)
		k.replay(1, model.ErrRefused)
		k.holds(c)
		k.replay(100, model.ErrRefused) // the lease is over
		k.finish(c, 101, nil)
		k.replay(102, model.ErrRefused)
		k.holds(done(c, 101))
	}},
	{"a second Replay is refused and takes nothing from the next owner", func(k key) {
		k.bury(k.claimed(0, 1), 1, "", nil)
		k.replay(2, nil)
		k.replay(2, model.ErrRefused)
		c := k.claimed(3, 2)
		k.replay(4, model.ErrRefused)
		k.finish(c, 5, nil)
	}},
	{"CompleteResult: the bytes come back to a duplicate, whatever they are", func(k key) {
		for i, result := range [][]byte{
			nil, {}, []byte("0"), []byte("false"), []byte("\xff\xfe\x00\x80"), []byte("line\r\n$5\r\n"),
			[]byte(strings.Repeat("\x00\xc3", 1<<19)),
		} {
			s := 20 * i
			c := k.claimed(s, 1)
			k.result(c, s+1, result, nil)
			want := done(c, s+1)
			want.Result = result
			k.holds(want)
			k.refused(s+2, want)
			k.prune(s+2, 1)
		}
		k.holds(k.claimed(200, 1)) // no result of an earlier record
	}},
	{"CompleteResult again by its own claim: the first result stays", func(k key) {
		c := k.claimed(0, 1)
		k.result(c, 1, []byte("first"), nil)
		k.result(c, 2, []byte("second"), nil)
		k.finish(c, 2, nil)
		k.commit(c, 2, "second", nil)
		want := done(c, 1)
		want.Result = []byte("first")
		k.holds(want)
		k.effectIDs()
	}},
	{"a completion without a result keeps none", func(k key) {
		c := k.claimed(0, 1)
		k.finish(c, 1, nil)
		k.result(c, 2, []byte("late"), nil)
		k.holds(done(c, 1))
	}},
	{"CompleteResult by a stale claim keeps nothing", func(k key) {
		stale := k.claimed(0, 1)
		c := k.claimed(10, 2)
		k.result(stale, 11, []byte("late"), model.ErrFenced)
		k.finish(c, 12, nil)
		k.result(stale, 13, []byte("later"), model.ErrFenced)
		k.holds(done(c, 12))
	}},
}

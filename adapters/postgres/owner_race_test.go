package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

// Each case lets somebody else's open transaction change the record while the owner's calls wait for its row.
func TestOwnersCallsWaitForWhoeverIsFaster(t *testing.T) {
	f := newFixture(t)
	for session, settings := range sessions() {
		s := f.storeWith(t, settings)
		for name, statement := range map[string]string{
			"takeover": `update {table} set attempts = 2, token = default, lease_until = $1, updated_at = $1, nonce = null`,
			"done":     `update {table} set state = 'DONE', lease_until = null, updated_at = $1, token = default`,
			"replayed": `update {table} set lease_until = $1, token = default, released = true`,
			"buried":   `update {table} set state = 'DEAD', lease_until = null, updated_at = $1, token = default`,
			"pruned":   `delete from {table} where $1::timestamptz is not null`,
		} {
			t.Run(name+", "+session, func(t *testing.T) {
				f.empty(t)
				stale := f.begin(t, "m", at(0), lease)
				tx := f.inTx(t, statement, at(time.Hour))
				calls := f.byClaim(s, "m", stale, at(time.Second))
				errs := make(chan error, len(calls))
				for _, call := range calls {
					go func() { errs <- call() }()
				}
				f.awaitWaiting(t, len(calls))
				must(t, tx.Commit(f.ctx))
				for range len(calls) {
					if err := <-errs; !errors.Is(err, model.ErrFenced) && !(name == "pruned" && errors.Is(err, model.ErrNotFound)) {
						t.Error(err)
					}
				}
				left, _, err := f.Lookup(f.ctx, "c", "m")
				must(t, err)
				if left.Reason != "" || left.Result != nil || (left.State == model.Processing && !left.LeaseUntil.Equal(at(time.Hour))) {
					t.Errorf("a stale claim changed the record: %+v", left)
				}
			})
		}
	}
	f.effects(t, 0)
}

// awaitWaiting returns once that many sessions wait for a lock.
func (f *fixture) awaitWaiting(t testing.TB, n int) {
	t.Helper()
	f.await(t, "so many sessions that wait for a lock", func() bool {
		var waiting int
		must(t, f.raw.QueryRow(f.ctx, "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')").Scan(&waiting))
		return waiting >= n
	})
}

// An owner that does all at once gets one end, and no call says otherwise.
func TestOneClaimComesToOneEnd(t *testing.T) {
	f := newFixture(t)
	const done, bury, release, extend = 0, 1, 2, 3
	for round := range 40 {
		id := fmt.Sprint("m", round)
		r := f.begin(t, id, at(0), lease)
		var errs [6]error
		together(len(errs), func(i int) {
			switch i {
			case done:
				errs[i] = f.CompleteResult(f.ctx, "c", id, r, at(time.Second), []byte("result"))
			case bury:
				errs[i] = f.Bury(f.ctx, "c", id, r, at(time.Second), "buried")
			case release:
				errs[i] = f.Release(f.ctx, "c", id, r, at(time.Second), at(time.Minute), "released")
			default:
				_, errs[i] = f.Extend(f.ctx, "c", id, r, at(time.Second), time.Hour)
			}
		})
		end, _, err := f.Lookup(f.ctx, "c", id)
		must(t, err)
		wins := 0
		for i, err := range errs {
			switch {
			case err != nil:
				wantIs(t, err, model.ErrFenced)
			case i < extend:
				wins++
			}
		}
		if wins != 1 {
			t.Fatalf("round %d: %d ends, want 1: %v", round, wins, errs)
		}
		ok := map[int]bool{
			done:    end.State == model.Done && string(end.Result) == "result",
			bury:    end.State == model.Dead && end.Reason == "buried",
			release: end.State == model.Processing && end.Reason == "released" && end.LeaseUntil.Equal(at(time.Minute)),
		}
		for i, told := range ok {
			if told != (errs[i] == nil) {
				t.Fatalf("round %d: the record is %+v, the answers are %v", round, end, errs)
			}
		}
	}
}

// A heartbeat and a takeover at the lease's end: either the owner keeps it or the other has it.
func TestAHeartbeatAndATakeoverNeverBothSucceed(t *testing.T) {
	f := newFixture(t)
	kept := 0
	for round := range 40 {
		id := fmt.Sprint("m", round)
		r := f.begin(t, id, at(0), lease)
		var extended error
		var taken [3]answer
		together(1+len(taken), func(i int) {
			if i == len(taken) {
				_, extended = f.Extend(f.ctx, "c", id, r, at(lease), lease)
				return
			}
			taken[i].record, taken[i].claimed, taken[i].err = f.Begin(f.ctx, "c", id, at(lease), lease)
		})
		claims := 0
		for _, a := range taken {
			must(t, a.err)
			if a.claimed {
				claims++
			}
		}
		switch {
		case extended == nil && claims == 0:
			kept++
		case errors.Is(extended, model.ErrFenced) && claims == 1:
		default:
			t.Fatalf("round %d: extend %v, %d claims", round, extended, claims)
		}
	}
	t.Logf("the owner kept %d of 40", kept)
}

func TestOneOfManyReplaysOpensTheLetterAndOneBeginTakesIt(t *testing.T) {
	f := newFixture(t)
	for name, settings := range sessions() {
		t.Run(name, func(t *testing.T) {
			s := f.storeWith(t, settings)
			for round := range 5 {
				id := fmt.Sprint(name, round)
				f.buried(t, id, f.begin(t, id, at(0), lease))
				var errs [6]error
				together(len(errs), func(i int) { errs[i] = s.Replay(f.ctx, "c", id, at(0)) })
				opened := 0
				for _, err := range errs {
					if err == nil {
						opened++
					} else {
						wantIs(t, err, postgres.ErrNotDead)
					}
				}
				if opened != 1 {
					t.Fatalf("%d replays of one letter succeeded", opened)
				}
				oneOfSix(t, f.ctx, s, id, at(lease), 2)
			}
		})
	}
}

func TestOneOfSixTakesAReleasedClaim(t *testing.T) {
	f := newFixture(t)
	for round := range 10 {
		id := fmt.Sprint("m", round)
		r := f.begin(t, id, at(0), lease)
		must(t, f.Release(f.ctx, "c", id, r, at(0), at(0), strings.Repeat("why ", round)))
		oneOfSix(t, f.ctx, f.Store, id, at(0), 2)
	}
}

// A call whose reply is lost has done its work, and asked again it is ok.
func TestALostReplyToAnOwnersCallIsUnknownAndMayBeAskedAgain(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"complete result", "release", "extend", "bury"} {
		t.Run(name, func(t *testing.T) {
			s, proxy := f.behindRelay(t)
			r, _, err := s.Begin(f.ctx, "c", name, at(0), lease)
			must(t, err)
			proxy.swallowReplies()
			if err := f.byClaim(s, name, r, at(0))[name](); err == nil || model.OutcomeOf(err) != model.Unknown {
				t.Fatalf("error %v, outcome %v", err, model.OutcomeOf(err))
			}
			must(t, postgres.Settled(f.ctx, testDSN(t), f.namespace))
			after, _, err := f.Lookup(f.ctx, "c", name)
			must(t, err)
			must(t, f.byClaim(f.Store, name, r, at(0))[name]())
			f.stands(t, name, after)
			if after.State == model.Processing && after.LeaseUntil.Equal(r.LeaseUntil) {
				t.Fatalf("the call was not done: %+v", after)
			}
		})
	}
}

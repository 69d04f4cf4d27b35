package adapters_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/effectonce/effectonce/model"
)

// The owner completes, extends, releases and buries at once: one ending wins, and the record is its.
func TestOfAllWaysToEndAClaimOneWins(t *testing.T) {
	const rounds = 60
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s, ctx := open(t), t.Context()
		ends := make(map[model.State]int)
		for round := range rounds {
			id := fmt.Sprint("m-", round)
			c, claimed, err := s.store.Begin(ctx, "c", id, at(0), lease)
			if err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			calls := []func() error{
				func() error { return s.store.CompleteClaim(ctx, "c", id, c, at(1)) },
				func() error { return s.store.CompleteResult(ctx, "c", id, c, at(1), []byte("result")) },
				func() error { return s.store.Release(ctx, "c", id, c, at(1), at(5), "released") },
				func() error { return s.store.Bury(ctx, "c", id, c, at(1), "buried") },
				func() error { _, err := s.store.Extend(ctx, "c", id, c, at(1), 2*lease); return err },
			}
			errs := make([]error, len(calls))
			together(len(calls), func(w int) { errs[(w+round)%len(calls)] = calls[(w+round)%len(calls)]() })
			for _, err := range errs {
				if err != nil && !errors.Is(err, model.ErrFenced) {
					t.Errorf("%s: %v", id, err)
				}
			}
			r, _, err := s.store.Lookup(ctx, "c", id)
			if err != nil {
				t.Fatal(err)
			}
			ends[r.State]++
			fenced := func(calls ...int) bool {
				for _, i := range calls {
					if !errors.Is(errs[i], model.ErrFenced) {
						return false
					}
				}
				return true
			}
			switch r.State {
			case model.Done:
				if errs[0] != nil || errs[1] != nil || !fenced(2, 3) || r.Reason != "" || !r.LeaseUntil.IsZero() {
					t.Errorf("%s: %+v after %v", id, r, errs)
				}
			case model.Dead:
				if errs[3] != nil || !fenced(0, 1, 2) || r.Reason != "buried" || r.Result != nil || !r.LeaseUntil.IsZero() {
					t.Errorf("%s: %+v after %v", id, r, errs)
				}
			default: // released, and no heartbeat took it back
				if errs[2] != nil || !fenced(0, 1, 3) || r.Reason != "released" || !r.LeaseUntil.Equal(at(5)) {
					t.Errorf("%s: %+v after %v", id, r, errs)
				}
			}
		}
		t.Log(ends)
	})
}

// A heartbeat beside those who wait for the lease: either it is extended and nobody gets it, or one takes over and the
// heartbeat is fenced.
func TestAHeartbeatAndATakeoverNeverBothSucceed(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s, ctx := open(t), t.Context()
		for round := range 60 {
			id := fmt.Sprint("m-", round)
			c, _, err := s.store.Begin(ctx, "c", id, at(0), lease)
			if err != nil {
				t.Fatal(err)
			}
			var extended, claims atomic.Int32
			together(3, func(w int) {
				if w == round%3 {
					_, err := s.store.Extend(ctx, "c", id, c, at(10), lease)
					if err == nil {
						extended.Add(1)
					} else if !errors.Is(err, model.ErrFenced) {
						t.Error(err)
					}
					return
				}
				_, claimed, err := s.store.Begin(ctx, "c", id, at(10), lease)
				if err != nil {
					t.Error(err)
				}
				if claimed {
					claims.Add(1)
				}
			})
			if extended.Load()+claims.Load() != 1 {
				t.Fatalf("%s: %d extensions and %d claims, want one of either", id, extended.Load(), claims.Load())
			}
		}
	})
}

func TestADeadLetterIsReplayedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		k := key{t, open(t)}
		c := k.claimed(0, 1)
		for round := 1; round <= 20; round++ {
			k.bury(c, 10*round, "again", nil)
			var replayed atomic.Int32
			claims := make(chan model.Record, 6)
			together(6, func(w int) {
				switch err := k.store.Replay(t.Context(), "billing", "m-1", at(10*round)); {
				case err == nil:
					replayed.Add(1)
				case !errors.Is(err, model.ErrRefused):
					t.Error(err)
				}
				r, claimed, err := k.store.Begin(t.Context(), "billing", "m-1", at(10*round), lease)
				if err != nil {
					t.Error(err)
				}
				if claimed {
					claims <- r
				}
			})
			close(claims)
			if replayed.Load() != 1 || len(claims) != 1 {
				t.Fatalf("round %d: replayed %d times and claimed %d times, want once each", round, replayed.Load(), len(claims))
			}
			if c = <-claims; c.Attempts != round+1 {
				t.Errorf("round %d: attempts %d", round, c.Attempts)
			}
		}
	})
}

// A caller may use its bytes again: neither what went in nor what came out is the store's own.
func TestAResultIsACopy(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		k := key{t, open(t)}
		c := k.claimed(0, 1)
		bytes := []byte("result")
		k.result(c, 1, bytes, nil)
		want := done(c, 1)
		want.Result = []byte("result")
		copy(bytes, "forged")
		k.holds(want)
		r, _ := k.begin(2)
		copy(r.Result, "forged")
		k.holds(want)
	})
}

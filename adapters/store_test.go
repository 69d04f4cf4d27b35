package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

// together runs n goroutines that start at once and waits for them.
func together(n int, do func(worker int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for w := range n {
		wg.Go(func() {
			<-start
			do(w)
		})
	}
	close(start)
	wg.Wait()
}

func TestOfSixConsumersOfOneMessageOneClaims(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s := open(t)
		for round := range 50 {
			id := fmt.Sprint("m-", round)
			var claims atomic.Int32
			var effects atomic.Int32
			together(6, func(w int) {
				r, claimed, err := s.store.Begin(t.Context(), "c", id, at(w), lease)
				if err != nil {
					t.Error(err)
					return
				}
				if !claimed {
					return
				}
				claims.Add(1)
				e := model.Effect{ID: fmt.Sprint(id, "/", w), Account: "a", Amount: 1}
				if err := s.store.CommitEffect(t.Context(), "c", id, r, at(w), e); err == nil {
					effects.Add(1)
				}
			})
			if claims.Load() != 1 || effects.Load() != 1 {
				t.Fatalf("%s: %d claims and %d effects, want 1 and 1", id, claims.Load(), effects.Load())
			}
		}
		all, err := s.effects()
		if err != nil || len(all) != 50 {
			t.Errorf("the ledger has %d effects, %v, want 50", len(all), err)
		}
	})
}

func TestARaceForAnExpiredClaimHasOneWinnerAndFencesTheOldOwner(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s := open(t)
		k := key{t, s}
		current := k.claimed(0, 1)
		for generation := 2; generation <= 12; generation++ {
			now := (generation - 1) * 10
			old, winners := current, make(chan model.Record, 6)
			together(6, func(w int) {
				if w == 0 { // the zombie wakes up in the middle of it
					err := s.store.CommitEffect(t.Context(), "billing", "m-1", model.Record{Token: "0"}, at(now), model.Effect{ID: "zombie"})
					if !errors.Is(err, model.ErrFenced) {
						t.Errorf("a claim that never was: %v, want ErrFenced", err)
					}
				}
				r, claimed, err := s.store.Begin(t.Context(), "billing", "m-1", at(now), lease)
				if err != nil {
					t.Error(err)
				}
				if claimed {
					winners <- r
				}
			})
			close(winners)
			if len(winners) != 1 {
				t.Fatalf("generation %d: %d winners, want 1", generation, len(winners))
			}
			current = <-winners
			if current.Attempts != generation {
				t.Errorf("generation %d: attempts %d", generation, current.Attempts)
			}
			k.rises(old, current)
			k.finish(old, now, model.ErrFenced)
		}
		k.finish(current, 500, nil)
		k.effectIDs()
	})
}

func TestTwoKeysAreNeverOne(t *testing.T) {
	long := strings.Repeat("p", 1024)
	pairs := [][2]string{
		{"a", "b:c"}, {"a:b", "c"}, {"a:", "b:c"}, {"1:a", "b"}, {"a", "1:b"}, {"ab", "c"}, {"a", "bc"},
		{"a|b", "c"}, {"a", "b|c"}, {"a}", "b"}, {"{a", "b"}, {"{a}", "b"}, {"{}", "b"},
		{"A", "B"}, {"a", "B"}, {"a", "b"}, {"a", "b "}, {"a ", "b"}, {"a", "b\n"}, {"a", "b\r\n"},
		{"a", "b\x00"}, {"a\x00", "b"}, {"a", "\x00b"}, {"\x00", "\x00"}, {"\x00\x00", "\x00"}, {"\x00", "\x00\x00"},
		{"a", "\xff\xfe"}, {"a", "\xff"}, {"a\xff", "\xfe"}, {"a", "\xef\xbf\xbd"},
		{"a", "é"}, {"a", "e\u0301"}, {"a", long}, {"a", long + "x"}, {"a", long + "y"}, {long, "a"}, {long + "a", "a"},
		{"a", "%s%d"}, {"a", "*"}, {"a", "[ab]"}, {"a", `\`}, {"a", "'"}, {"a", `"`}, {"-1", "-1"}, {"0", "0"},
	}
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s, ctx := open(t), t.Context()
		tokens := make(map[string]bool)
		for i, p := range pairs {
			r, claimed, err := s.store.Begin(ctx, p[0], p[1], at(i), lease)
			if err != nil || !claimed || r.Attempts != 1 {
				t.Fatalf("Begin(%q, %q) answers %+v, %v, %v: it met another key", p[0], p[1], r, claimed, err)
			}
			if tokens[r.Token] {
				t.Errorf("token %s names two claims", r.Token)
			}
			tokens[r.Token] = true
			e := model.Effect{ID: p[1], Account: p[0], Amount: int64(i)}
			if err := s.store.CommitEffect(ctx, p[0], p[1], r, at(i), e); err != nil {
				t.Fatal(err)
			}
		}
		for i, p := range pairs {
			r, found, err := s.store.Lookup(ctx, p[0], p[1])
			if err != nil || !found || r.State != model.Done || !r.UpdatedAt.Equal(at(i)) {
				t.Errorf("Lookup(%q, %q) answers %+v, %v, %v", p[0], p[1], r, found, err)
			}
		}
		all, err := s.effects()
		if err != nil || len(all) != len(pairs) {
			t.Fatalf("the ledger has %d effects, %v, want %d", len(all), err, len(pairs))
		}
		for _, a := range all {
			i := a.Effect.Amount
			if want := pairs[i]; a.Consumer != want[0] || a.MessageID != want[1] || a.Effect.ID != want[1] || a.Effect.Account != want[0] {
				t.Errorf("the ledger has %+v, want %q", a, want)
			}
		}
		if n, err := s.store.Prune(ctx, at(len(pairs))); n != len(pairs) || err != nil {
			t.Errorf("Prune answers %d, %v, want %d", n, err, len(pairs))
		}
	})
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s, ctx := open(t), t.Context()
		st, claim := s.store, key{t, s}.claimed(0, 1)
		begin := func(c, m string, now time.Time, lease time.Duration) error {
			_, claimed, err := st.Begin(ctx, c, m, now, lease)
			return errors.Join(err, unless(!claimed, "it claimed"))
		}
		cases := map[string]error{
			"the consumer is empty":   begin("", "m", at(0), lease),
			"the message id is empty": begin("c", "", at(0), lease),
			"now is zero":             begin("c", "m", never, lease),
			"lease":                   begin("c", "m", at(0), 0),
			"the lease":               begin("c", "m", at(0), -lease),
			"is zero":                 st.Complete(ctx, "billing", "m-1", never),
			"consumer is":             st.CompleteClaim(ctx, "", "m-1", claim, at(1)),
			"message id is":           st.CommitEffect(ctx, "billing", "", claim, at(1), model.Effect{ID: "e"}),
			"zero":                    st.CommitEffect(ctx, "billing", "m-1", claim, never, model.Effect{ID: "e"}),
			"complete result: now":    st.CompleteResult(ctx, "billing", "m-1", claim, never, nil),
			"release: now":            st.Release(ctx, "billing", "m-1", claim, never, at(1), "r"),
			"release: the consumer":   st.Release(ctx, "", "m-1", claim, at(1), at(1), "r"),
			"bury: now":               st.Bury(ctx, "billing", "m-1", claim, never, "r"),
			"bury: the message":       st.Bury(ctx, "billing", "", claim, at(1), "r"),
			"replay: now":             st.Replay(ctx, "billing", "m-1", never),
			"replay: the message":     st.Replay(ctx, "billing", "", at(1)),
		}
		for names, lease := range map[string]time.Duration{"extend: the lease": 0, "extend: the": -lease} {
			_, err := st.Extend(ctx, "billing", "m-1", claim, at(1), lease)
			cases[names] = err
		}
		_, cases["extend: now"] = st.Extend(ctx, "billing", "m-1", claim, never, lease)
		_, _, err := st.BeginAs(ctx, "c", "m", "", at(0), lease)
		cases["nonce"] = err
		_, _, err = st.Lookup(ctx, "", "m")
		cases["consumer"] = err
		for names, err := range cases {
			if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), names) {
				t.Errorf("%v, want ErrRefused that names %q", err, names)
			}
		}
		key{t, s}.holds(claim)
		key{t, s}.effectIDs()
		if _, found, err := st.Lookup(ctx, "c", "m"); found || err != nil {
			t.Errorf("a refused Begin left a record (%v)", err)
		}
	})
}

func unless(fine bool, complaint string) error {
	if fine {
		return nil
	}
	return errors.New(complaint)
}

func TestAContextThatIsOverChangesNothingAndSaysSo(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s := open(t)
		k := key{t, s}
		claim := k.claimed(0, 1)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, begin := s.store.Begin(over, "c", "m", at(0), lease)
		_, prune := s.store.Prune(over, at(1000))
		_, extend := s.store.Extend(over, "billing", "m-1", claim, at(1), lease)
		_, _, lookup := s.store.Lookup(over, "billing", "m-1")
		for _, err := range []error{
			begin, prune, lookup, extend,
			s.store.CompleteResult(over, "billing", "m-1", claim, at(1), nil),
			s.store.Release(over, "billing", "m-1", claim, at(1), at(1), ""),
			s.store.Bury(over, "billing", "m-1", claim, at(1), ""),
			s.store.Replay(over, "billing", "m-1", at(1)),
			s.store.Complete(over, "billing", "m-1", at(1)),
			s.store.CompleteClaim(over, "billing", "m-1", claim, at(1)),
			s.store.CommitEffect(over, "billing", "m-1", claim, at(1), model.Effect{ID: "e"}),
		} {
			if !errors.Is(err, context.Canceled) || model.OutcomeOf(err) != model.NotApplied {
				t.Errorf("%v (%v), want the context's error with the proof that nothing changed", err, model.OutcomeOf(err))
			}
		}
		k.holds(claim)
		if _, found, _ := s.store.Lookup(t.Context(), "c", "m"); found {
			t.Error("the cancelled Begin left a record")
		}
	})
}

// Six writers complete messages while two workers prune: every completion before the cut-off is counted by exactly
// one Prune, and nothing else goes.
func TestPruneBesideWritersCountsEachOldRecordOnce(t *testing.T) {
	const writers, each = 6, 90
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s, ctx := open(t), t.Context()
		for i := range 40 { // old and DONE during every Prune
			completeAt(t, s.store, fmt.Sprint("old-", i), at(0))
		}
		var pruned atomic.Int64
		prune := func() {
			n, err := s.store.Prune(ctx, at(100))
			if err != nil {
				t.Error(err)
			}
			pruned.Add(int64(n))
		}
		together(writers+2, func(w int) {
			if w >= writers {
				for range 10 {
					prune()
				}
				return
			}
			for i := range each {
				id := fmt.Sprint(w, "-", i)
				switch i % 3 {
				case 0:
					completeAt(t, s.store, id, at(50))
				case 1:
					completeAt(t, s.store, id, at(100)) // at the cut-off: stays
				default:
					if _, _, err := s.store.Begin(ctx, "c", id, at(1), lease); err != nil { // never done
						t.Error(err)
					}
				}
			}
		})
		prune()
		if want := int64(40 + writers*each/3); pruned.Load() != want {
			t.Errorf("%d records counted as removed, want %d", pruned.Load(), want)
		}
		for w := range writers {
			for i := range each {
				_, found, err := s.store.Lookup(ctx, "c", fmt.Sprint(w, "-", i))
				if err != nil || found != (i%3 != 0) {
					t.Fatalf("message %d-%d: found %v, %v", w, i, found, err)
				}
			}
		}
	})
}

func completeAt(t *testing.T, s model.Store, id string, now time.Time) {
	if _, _, err := s.Begin(t.Context(), "c", id, now, lease); err != nil {
		t.Error(err)
	}
	if err := s.Complete(t.Context(), "c", id, now); err != nil {
		t.Error(err)
	}
}

func TestALocationDoesNotMatter(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		s := open(t)
		east := time.FixedZone("east", 9*3600)
		r, _, err := s.store.Begin(t.Context(), "c", "m", at(0).In(east), lease)
		if err != nil || !r.LeaseUntil.Equal(at(10)) {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, claimed, _ := s.store.Begin(t.Context(), "c", "m", at(9).UTC(), lease); claimed {
			t.Error("claimed early")
		}
		if _, claimed, _ := s.store.Begin(t.Context(), "c", "m", at(10).In(east), lease); !claimed {
			t.Error("not claimed at the end of the lease")
		}
	})
}

package adapters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/model"
)

// full is what both shipped stores offer.
type full interface {
	model.Store
	model.Rebeginner
	model.Fencer
	model.EffectCommitter
	model.ResultKeeper
	model.Releaser
	model.Extender
	model.DeadLetterer
	model.Reader
}

// shipped is one store of ours on one fresh namespace.
type shipped struct {
	store   full
	effects func() ([]model.Applied, error)
}

func memoryStore(*testing.T) shipped {
	space := memory.New(memory.Options{})
	return shipped{space.Open(), func() ([]model.Applied, error) { return space.Effects(), nil }}
}

func redisStore(t *testing.T, url string) shipped {
	t.Helper()
	ctx := t.Context()
	namespace := "table-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s, err := redis.Open(ctx, url, redis.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := redis.Drop(context.Background(), url, namespace); err != nil {
			t.Error(err)
		}
	})
	return shipped{s, func() ([]model.Applied, error) { return redis.Effects(ctx, url, namespace) }}
}

func eachStore(t *testing.T, test func(*testing.T, func(*testing.T) shipped)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryStore) })
	t.Run("miniredis", func(t *testing.T) {
		url := "redis://" + miniredis.RunT(t).Addr()
		test(t, func(t *testing.T) shipped { return redisStore(t, url) })
	})
	t.Run("redis", func(t *testing.T) {
		url := realRedis.Need(t).DSN()
		test(t, func(t *testing.T) shipped { return redisStore(t, url) })
	})
}

var (
	epoch = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	never time.Time
)

// at is the instant that lies so many seconds into a row.
func at(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }

// key drives one message through a row of the table; every lease is 10 s.
type key struct {
	t *testing.T
	shipped
}

const lease = 10 * time.Second

func (k key) begin(s int) (model.Record, bool) {
	k.t.Helper()
	r, claimed, err := k.store.Begin(k.t.Context(), "billing", "m-1", at(s), lease)
	if err != nil {
		k.t.Fatalf("Begin at %d: %v", s, err)
	}
	return r, claimed
}

func (k key) claimed(s, attempts int) model.Record {
	k.t.Helper()
	r, claimed := k.begin(s)
	if !claimed {
		k.t.Fatalf("Begin at %d is refused with %+v", s, r)
	}
	want := model.Record{State: model.Processing, Attempts: attempts, LeaseUntil: at(s + 10), UpdatedAt: at(s), Token: r.Token}
	k.same("Begin", r, want)
	return r
}

func (k key) refused(s int, want model.Record) {
	k.t.Helper()
	r, claimed := k.begin(s)
	if claimed {
		k.t.Fatalf("Begin at %d claims", s)
	}
	k.same("Begin", r, want)
}

func (k key) again(nonce string, s int, wantClaimed bool) model.Record {
	k.t.Helper()
	r, claimed, err := k.store.BeginAs(k.t.Context(), "billing", "m-1", nonce, at(s), lease)
	if err != nil || claimed != wantClaimed {
		k.t.Fatalf("BeginAs(%s) at %d answers claimed=%v, %v, want claimed=%v", nonce, s, claimed, err, wantClaimed)
	}
	return r
}

func (k key) complete(s int, want error) {
	k.t.Helper()
	k.answers("Complete", k.store.Complete(k.t.Context(), "billing", "m-1", at(s)), want)
}

func (k key) finish(claim model.Record, s int, want error) {
	k.t.Helper()
	k.answers("CompleteClaim", k.store.CompleteClaim(k.t.Context(), "billing", "m-1", claim, at(s)), want)
}

func (k key) commit(claim model.Record, s int, id string, want error) {
	k.t.Helper()
	effect := model.Effect{ID: id, Account: "acc\x00\n:", Amount: -7}
	k.answers("CommitEffect", k.store.CommitEffect(k.t.Context(), "billing", "m-1", claim, at(s), effect), want)
}

func (k key) effectIDs(want ...string) {
	k.t.Helper()
	all, err := k.effects()
	if err != nil {
		k.t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		if a.Consumer != "billing" || a.MessageID != "m-1" || a.Effect.Account != "acc\x00\n:" || a.Effect.Amount != -7 {
			k.t.Errorf("the ledger has %+v", a)
		}
		got = append(got, a.Effect.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.t.Errorf("the ledger has the effects %q, want %q", got, want)
	}
}

func (k key) prune(before, want int) {
	k.t.Helper()
	n, err := k.store.Prune(k.t.Context(), at(before))
	if err != nil || n != want {
		k.t.Errorf("Prune before %d answers %d, %v, want %d", before, n, err, want)
	}
}

func (k key) holds(want model.Record) {
	k.t.Helper()
	r, found, err := k.store.Lookup(k.t.Context(), "billing", "m-1")
	if err != nil || found != (want.State != model.Absent) {
		k.t.Fatalf("Lookup answers %+v, %v, %v, want %+v", r, found, err, want)
	}
	k.same("Lookup", r, want)
}

func (k key) answers(call string, got, want error) {
	k.t.Helper()
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		k.t.Errorf("%s answers %v, want %v", call, got, want)
	}
}

func (k key) same(call string, got, want model.Record) {
	k.t.Helper()
	if got.State != want.State || got.Attempts != want.Attempts || got.Token != want.Token ||
		got.Reason != want.Reason || !bytes.Equal(got.Result, want.Result) || (got.Result == nil) != (want.Result == nil) ||
		!got.LeaseUntil.Equal(want.LeaseUntil) || !got.UpdatedAt.Equal(want.UpdatedAt) {
		k.t.Errorf("%s answers\n %+v, want\n %+v", call, got, want)
	}
}

func done(claim model.Record, s int) model.Record {
	return model.Record{State: model.Done, Attempts: claim.Attempts, UpdatedAt: at(s), Token: claim.Token}
}

// transitions has one row for each thing that a state and a call may come to.
var transitions = []struct {
	name string
	run  func(key)
}{
	{"Begin claims an absent message", func(k key) {
		k.holds(model.Record{})
		k.holds(k.claimed(0, 1))
	}},
	{"Begin under a live lease is refused and changes nothing", func(k key) {
		c := k.claimed(0, 1)
		k.refused(0, c)
		k.refused(9, c)
		k.holds(c)
	}},
	{"Begin at the end of the lease takes over", func(k key) {
		first := k.claimed(0, 1)
		second := k.claimed(10, 2)
		k.rises(first, second)
		k.rises(second, k.claimed(25, 3))
	}},
	{"Begin on DONE is refused", func(k key) {
		c := k.claimed(0, 1)
		k.complete(3, nil)
		k.refused(4, done(c, 3))
		k.refused(400, done(c, 3))
	}},
	{"BeginAs answers its own nonce as the owner while the lease lives", func(k key) {
		c := k.again("n1", 0, true)
		k.same("BeginAs", k.again("n1", 9, true), c)
		k.same("BeginAs", k.again("n2", 9, false), c)
		k.refused(9, c)
	}},
	{"BeginAs after the lease is Begin, under the same nonce too", func(k key) {
		first := k.again("n1", 0, true)
		second := k.again("n1", 10, true)
		if second.Attempts != 2 {
			k.t.Errorf("attempts %d, want 2", second.Attempts)
		}
		k.rises(first, second)
		k.again("n2", 20, true)
		k.again("n1", 21, false)
	}},
	{"a Begin takes over from a nonce, which is then nobody's", func(k key) {
		k.again("n1", 0, true)
		k.claimed(10, 2)
		k.again("n1", 11, false)
	}},
	{"BeginAs on DONE is refused", func(k key) {
		k.again("n1", 0, true)
		k.complete(1, nil)
		k.again("n1", 2, false)
	}},
	{"Complete on an absent message is an error", func(k key) { k.complete(0, model.ErrNotFound); k.holds(model.Record{}) }},
	{"Complete makes it DONE, past the lease too", func(k key) {
		c := k.claimed(0, 1)
		k.complete(30, nil)
		k.holds(done(c, 30))
	}},
	{"Complete on DONE keeps the time", func(k key) {
		c := k.claimed(0, 1)
		k.complete(3, nil)
		k.complete(8, nil)
		k.holds(done(c, 3))
	}},
	{"CompleteClaim by the current claim, past its lease too", func(k key) {
		c := k.claimed(0, 1)
		k.finish(c, 40, nil)
		k.holds(done(c, 40))
		k.finish(c, 41, nil)
		k.holds(done(c, 40))
	}},
	{"CompleteClaim by a stale claim is fenced", func(k key) {
		stale := k.claimed(0, 1)
		c := k.claimed(10, 2)
		k.finish(stale, 11, model.ErrFenced)
		k.finish(model.Record{}, 11, model.ErrFenced)
		k.holds(c)
		k.finish(c, 12, nil)
		k.finish(stale, 13, model.ErrFenced)
		k.holds(done(c, 12))
	}},
	{"a fenced call without a record", func(k key) {
		k.finish(model.Record{Token: "1"}, 0, model.ErrNotFound)
		k.commit(model.Record{Token: "1"}, 0, "e", model.ErrNotFound)
		k.effectIDs()
	}},
	{"a claim from before its message was forgotten stays stale", func(k key) {
		old := k.claimed(0, 1)
		k.finish(old, 1, nil)
		k.prune(2, 1)
		k.holds(model.Record{})
		k.finish(old, 3, model.ErrNotFound)
		c := k.claimed(4, 1)
		k.rises(old, c)
		k.finish(old, 5, model.ErrFenced)
		k.commit(old, 5, "zombie", model.ErrFenced)
		k.holds(c)
		k.effectIDs()
	}},
	{"CommitEffect writes DONE and one effect", func(k key) {
		c := k.claimed(0, 1)
		k.commit(c, 3, "e1", nil)
		k.commit(c, 4, "e2", nil)
		k.holds(done(c, 3))
		k.effectIDs("e1")
	}},
	{"CommitEffect by a stale claim writes nothing", func(k key) {
		stale := k.claimed(0, 1)
		c := k.claimed(10, 2)
		k.commit(stale, 11, "late", model.ErrFenced)
		k.commit(c, 30, "right", nil)
		k.commit(stale, 31, "later", model.ErrFenced)
		k.effectIDs("right")
	}},
	{"Prune removes DONE that is older, and nothing else", func(k key) {
		k.claimed(0, 1)
		k.prune(1000, 0)
		c := k.claimed(10, 2)
		k.complete(20, nil)
		k.prune(20, 0)
		k.refused(21, done(c, 20))
		k.prune(21, 1)
		k.prune(21, 0)
		k.claimed(22, 1)
	}},
}

func TestTransitionTable(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) shipped) {
		for _, row := range append(transitions, claimTransitions...) {
			t.Run(row.name, func(t *testing.T) { row.run(key{t, open(t)}) })
		}
	})
}

// rises demands that the later claim's token is the greater number.
func (k key) rises(earlier, later model.Record) {
	k.t.Helper()
	a, errA := strconv.ParseUint(earlier.Token, 10, 64)
	b, errB := strconv.ParseUint(later.Token, 10, 64)
	if errA != nil || errB != nil || a >= b {
		k.t.Errorf("token %q is followed by %q, want a greater base-10 uint64", earlier.Token, later.Token)
	}
}

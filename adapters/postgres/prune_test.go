package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func (f *fixture) prune(t testing.TB, before time.Time, want int) {
	t.Helper()
	n, err := f.Prune(f.ctx, before)
	if err != nil || n != want {
		t.Fatalf("pruned %d, error %v; want %d", n, err, want)
	}
}

func (f *fixture) fill(t testing.TB, id string, doneAt time.Time) model.Record {
	t.Helper()
	r := f.begin(t, id, doneAt, lease)
	must(t, f.Complete(f.ctx, "c", id, doneAt))
	return done(r, doneAt)
}

// pruned is what Prune said.
type pruned struct {
	n   int
	err error
}

func TestPruneRemovesOldDoneAndNothingElse(t *testing.T) {
	f := newFixture(t)
	f.fill(t, "old", at(-time.Microsecond))
	edge := f.fill(t, "edge", at(0))
	live := f.begin(t, "live", at(-time.Hour), 100*time.Hour)
	expired := f.begin(t, "expired", at(-time.Hour), time.Second)
	f.prune(t, time.Time{}, 0)
	f.prune(t, at(0), 1)
	f.prune(t, at(999), 0)
	f.stands(t, "old", model.Record{})
	f.stands(t, "edge", edge)
	f.stands(t, "live", live)
	f.stands(t, "expired", expired)
	f.prune(t, at(1000), 1)
	f.prune(t, at(1000*time.Hour), 0)
}

func TestTokensIncreaseAcrossPruneAndHandles(t *testing.T) {
	f := newFixture(t)
	last := f.begin(t, "m", at(0), lease)
	for range 5 {
		must(t, f.CompleteClaim(f.ctx, "c", "m", last, at(0)))
		f.prune(t, at(1*time.Second), 1)
		s := f.storeWith(t, nil)
		for try := range 3 {
			next, claimed, err := s.Begin(f.ctx, "c", "m", at(time.Duration(try)*lease), lease)
			if err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			increases(t, last, next)
			last = next
		}
	}
}

func TestPruneWaitsForARowThatIsLocked(t *testing.T) {
	namespace := testNamespace(t)
	for name, c := range map[string]struct {
		statement string
		pruned    int
	}{
		"merely locked": {"select from {table} where message_id = 'm2' for update", 5},
		"completed anew, as it was": {
			"update {table} set updated_at = updated_at where message_id = 'm2'", 5},
		"completed anew, later": {
			"update {table} set updated_at = updated_at + interval '1 year' where message_id = 'm2'", 4},
		"claimed by a hand": {
			"update {table} set state = 'PROCESSING', lease_until = updated_at where message_id = 'm2'", 4},
		"removed by another": {"delete from {table} where message_id = 'm2'", 4},
	} {
		for _, batch := range []int{1, 3, 5, 100} {
			t.Run(fmt.Sprint(name, ", in batches of ", batch), func(t *testing.T) {
				f := newFixtureOn(t, namespace, postgres.Options{PruneBatch: batch})
				f.empty(t)
				for i := range 5 {
					f.fill(t, fmt.Sprint("m", i), at(time.Duration(i)*time.Microsecond))
				}
				tx := f.inTx(t, c.statement)
				answers := make(chan pruned, 1)
				go func() {
					n, err := f.Prune(f.ctx, at(time.Second))
					answers <- pruned{n, err}
				}()
				f.awaitBlocked(t, pidOf(tx))
				must(t, tx.Commit(f.ctx))
				if a := <-answers; a.err != nil || a.n != c.pruned {
					t.Fatalf("%+v, want %d", a, c.pruned)
				}
				f.prune(t, at(time.Second), 0)
			})
		}
	}
}

func TestPruneCountsExactlyBesideOthers(t *testing.T) {
	f := newFixtureOn(t, testNamespace(t), postgres.Options{PruneBatch: 7})
	const old, busy = 300, 200
	f.exec(t, `insert into {table} (consumer, message_id, state, attempts, updated_at)
		select 'c', 'old' || i, 'DONE', 1, $1::timestamptz - interval '1 day' from generate_series(1, $2::int) i`, at(0), old)
	var removed atomic.Int64
	errs := make([]error, 6)
	together(len(errs), func(i int) {
		if i < 3 { // pruners
			n, err := f.Prune(f.ctx, at(0))
			removed.Add(int64(n))
			errs[i] = err
			return
		}
		for n := range busy { // writers: of new messages, and duplicates of old ones
			id := fmt.Sprint("new", i, "/", n)
			_, claimed, err := f.Begin(f.ctx, "c", id, at(0), lease)
			if err == nil && !claimed {
				err = errors.New("not claimed")
			}
			_, _, dup := f.Begin(f.ctx, "c", fmt.Sprint("old", n), at(0), lease)
			errs[i] = errors.Join(errs[i], err, dup, f.Complete(f.ctx, "c", id, at(0)))
		}
	})
	must(t, errors.Join(errs...))
	if removed.Load() != old {
		t.Fatalf("three prunes removed %d together, %d were there", removed.Load(), old)
	}
	var left int
	must(t, f.raw.QueryRow(f.ctx, "select count(*) from "+f.table+" where state = 'DONE'").Scan(&left))
	if left != 3*busy {
		t.Fatalf("%d new records are left of %d", left, 3*busy)
	}
}

// Writers that complete records with old instants as fast as Prune removes them must not keep it for ever: what was
// claimed after its first look is the next call's.
func TestPruneLeavesWhatWasClaimedAfterItBegan(t *testing.T) {
	f := newFixtureOn(t, testNamespace(t), postgres.Options{PruneBatch: 1})
	for i := range 3 {
		f.fill(t, fmt.Sprint("m", i), at(time.Duration(i)*time.Microsecond))
	}
	tx := f.inTx(t, "select from {table} where message_id = 'm1' for update")
	answers := make(chan pruned, 1)
	go func() {
		n, err := f.Prune(f.ctx, at(time.Hour))
		answers <- pruned{n, err}
	}()
	f.awaitBlocked(t, pidOf(tx))
	late := f.fill(t, "late", at(time.Minute))
	must(t, tx.Commit(f.ctx))
	if a := <-answers; a.err != nil || a.n != 3 {
		t.Fatalf("%+v, want 3", a)
	}
	f.stands(t, "late", late)
	f.prune(t, at(time.Hour), 1)
}

func TestPruneStopsWithItsContext(t *testing.T) {
	f := newFixtureOn(t, testNamespace(t), postgres.Options{PruneBatch: 2})
	for i := range 6 {
		f.fill(t, fmt.Sprint("m", i), at(time.Duration(i)*time.Microsecond))
	}
	tx := f.inTx(t, "select from {table} where message_id = 'm4' for update")
	ctx, cancel := context.WithCancel(f.ctx)
	answers := make(chan pruned, 1)
	go func() {
		n, err := f.Prune(ctx, at(time.Second))
		answers <- pruned{n, err}
	}()
	f.awaitBlocked(t, pidOf(tx))
	cancel()
	a := <-answers
	if a.n != 4 || !errors.Is(a.err, context.Canceled) || model.OutcomeOf(a.err) != model.Unknown {
		t.Fatalf("%+v, outcome %v", a, model.OutcomeOf(a.err))
	}
}

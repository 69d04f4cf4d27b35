package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func (f *fixture) effects(t testing.TB, want int) []model.Applied {
	t.Helper()
	applied, err := postgres.Effects(f.ctx, testDSN(t), f.namespace)
	if err != nil || len(applied) != want {
		t.Fatalf("%d effects, error %v; want %d: %+v", len(applied), err, want, applied)
	}
	return applied
}

func (f *fixture) claimOf(id string, r model.Record, now time.Time) postgres.Claim {
	return postgres.Claim{Consumer: "c", MessageID: id, Record: r, Now: now}
}

// effect is a business write: one row of the ledger.
func (f *fixture) effect(tx pgx.Tx, id string) error {
	_, err := tx.Exec(f.ctx, "insert into "+pgx.Identifier{f.namespace, postgres.DefaultLedger}.Sanitize()+
		" values ($1, 'a', 1, 'c', 'm')", id)
	return err
}

func TestCommitEffect(t *testing.T) {
	f := newFixture(t)
	stale := f.begin(t, "m", at(0), lease)
	r := f.begin(t, "m", at(lease), lease)
	wantIs(t, f.CommitEffect(f.ctx, "c", "m", stale, at(lease), model.Effect{ID: "stale"}), model.ErrFenced)
	f.stands(t, "m", r)
	late := at(9 * lease)
	must(t, f.CommitEffect(f.ctx, "c", "m", r, late, model.Effect{ID: "e1", Account: "a", Amount: -5}))
	f.stands(t, "m", done(r, late))
	must(t, f.CommitEffect(f.ctx, "c", "m", r, at(0), model.Effect{ID: "e2", Account: "a", Amount: -5}))
	f.stands(t, "m", done(r, late))
	wantIs(t, f.CommitEffect(f.ctx, "c", "m", stale, at(0), model.Effect{ID: "stale"}), model.ErrFenced)

	want := model.Applied{Consumer: "c", MessageID: "m", Effect: model.Effect{ID: "e1", Account: "a", Amount: -5}}
	if got := f.effects(t, 1)[0]; got != want {
		t.Fatalf("effect %+v, want %+v", got, want)
	}
	f.prune(t, late.Add(time.Microsecond), 1)
	wantIs(t, f.CommitEffect(f.ctx, "c", "m", r, at(0), model.Effect{ID: "e3"}), model.ErrNotFound)
	f.effects(t, 1)
}

func TestCommitTxIsBothOrNeither(t *testing.T) {
	errWork := errors.New("no stock")
	for name, c := range map[string]struct {
		work func(*fixture, pgx.Tx) error
		is   error
	}{
		"the function fails":             {func(f *fixture, tx pgx.Tx) error { return errors.Join(f.effect(tx, "e"), errWork) }, errWork},
		"the function hides its failure": {func(f *fixture, tx pgx.Tx) error { _, _ = tx.Exec(f.ctx, "select 1/0"); return f.effect(tx, "e") }, nil},
		"a statement fails unnoticed": {func(f *fixture, tx pgx.Tx) error {
			_ = f.effect(tx, "e")
			_, _ = tx.Exec(f.ctx, "select 1/0")
			return nil
		}, nil},
		"the function tries to commit": {func(f *fixture, tx pgx.Tx) error { _ = f.effect(tx, "e"); return tx.Commit(f.ctx) }, nil},
		"the function rolls back":      {func(f *fixture, tx pgx.Tx) error { _ = f.effect(tx, "e"); return tx.Rollback(f.ctx) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.begin(t, "m", at(0), lease)
			err := f.CommitTx(f.ctx, f.claimOf("m", r, at(1)), func(tx pgx.Tx) error { return c.work(f, tx) })
			if err == nil || model.OutcomeOf(err) != model.NotApplied || (c.is != nil && !errors.Is(err, c.is)) {
				t.Fatalf("error %v, outcome %v", err, model.OutcomeOf(err))
			}
			f.stands(t, "m", r)
			f.effects(t, 0)
			must(t, f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(tx pgx.Tx) error { return f.effect(tx, "again") }))
			f.stands(t, "m", done(r, at(0)))
			f.effects(t, 1)
		})
	}
}

func TestCommitTxEndsItsBlockWhenTheFunctionPanics(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic was swallowed")
			}
		}()
		_ = f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(tx pgx.Tx) error { _ = f.effect(tx, "e"); panic("boom") })
	}()
	f.begin(t, "m", at(lease), lease)
	f.effects(t, 0)
}

func TestCommitTxHonoursSavepointsAndContext(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	ctx, cancel := context.WithCancel(f.ctx)
	err := f.CommitTx(ctx, f.claimOf("m", r, at(0)), func(tx pgx.Tx) error { cancel(); return nil })
	wantIs(t, err, context.Canceled)
	f.stands(t, "m", r)
	must(t, f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(tx pgx.Tx) error {
		err := pgx.BeginFunc(f.ctx, tx, func(inner pgx.Tx) error { return errors.Join(f.effect(inner, "undone"), errors.New("undo")) })
		if err == nil {
			return errors.New("the savepoint committed")
		}
		return f.effect(tx, "kept")
	}))
	if id := f.effects(t, 1)[0].Effect.ID; id != "kept" {
		t.Fatalf("effect %q", id)
	}
}

func TestATakeoverWaitsForTheCommitAndFindsItDone(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	answers := make(chan answer, 1)
	must(t, f.CommitTx(f.ctx, f.claimOf("m", r, at(lease)), func(tx pgx.Tx) error {
		go func() {
			r, claimed, err := f.Begin(f.ctx, "c", "m", at(lease), lease)
			answers <- answer{r, claimed, err}
		}()
		f.awaitBlocked(t, pidOf(tx))
		return f.effect(tx, "e")
	}))
	a := <-answers
	if a.err != nil || a.claimed {
		t.Fatalf("%+v", a)
	}
	same(t, a.record, done(r, at(lease)))
}

func TestAStalledCommitGivesTheKeyBack(t *testing.T) {
	f := newFixtureOn(t, testNamespace(t), postgres.Options{CommitIdle: 50 * time.Millisecond})
	r := f.begin(t, "m", at(0), lease)
	err := f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(tx pgx.Tx) error {
		if err := f.effect(tx, "e"); err != nil {
			return err
		}
		f.begin(t, "m", at(lease), lease) // waits until the server has ended the block
		return nil
	})
	if err == nil {
		t.Fatal("a block that the server had ended was committed")
	}
	f.effects(t, 0)
}

func TestOneOfManyCommitsOfOneClaimRuns(t *testing.T) {
	f := newFixture(t)
	for round := range 20 {
		id := fmt.Sprint("m", round)
		r := f.begin(t, id, at(0), lease)
		var errs [6]error
		together(len(errs), func(i int) {
			errs[i] = f.CommitEffect(f.ctx, "c", id, r, at(0), model.Effect{ID: fmt.Sprint(id, "/", i)})
		})
		must(t, errors.Join(errs[:]...))
	}
	f.effects(t, 20)
}

// The commit of an implicit block is answered by the Sync, after all results: what fails there must not be taken
// for a claim.
func TestAFailureAtTheCommitIsNoClaim(t *testing.T) {
	f := newFixture(t)
	kept := f.begin(t, "kept", at(0), lease)
	schema := pgx.Identifier{f.namespace}.Sanitize()
	f.exec(t, "create function "+schema+".no() returns trigger language plpgsql as $$ begin raise exception 'not at commit'; end $$")
	f.exec(t, "create constraint trigger late after insert or update on {table} deferrable initially deferred for each row execute function "+schema+".no()")
	_, claimed, err := f.Begin(f.ctx, "c", "m", at(0), lease)
	if err == nil || claimed || model.OutcomeOf(err) != model.NotApplied {
		t.Fatalf("claimed %v, error %v", claimed, err)
	}
	f.stands(t, "m", model.Record{})
	for _, err := range []error{
		f.Complete(f.ctx, "c", "kept", at(0)),
		f.CompleteClaim(f.ctx, "c", "kept", kept, at(0)),
		f.CommitEffect(f.ctx, "c", "kept", kept, at(0), model.Effect{ID: "e"}),
	} {
		if err == nil || model.OutcomeOf(err) != model.NotApplied {
			t.Fatalf("error %v, outcome %v", err, model.OutcomeOf(err))
		}
	}
	f.stands(t, "kept", kept)
	f.effects(t, 0)
}

package postgres_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func TestThreeMigrateAtOnce(t *testing.T) {
	dsn, ctx := testDSN(t), testContext(t)
	for range 5 {
		namespace := "eo_race_" + strings.ToLower(rand.Text()[:10])
		var errs [3]error
		together(len(errs), func(i int) { errs[i] = postgres.Prepare(ctx, dsn, namespace) })
		errs[0] = errors.Join(errs[0], postgres.Prepare(ctx, dsn, namespace))
		must(t, errors.Join(append(errs[:], postgres.Drop(ctx, dsn, namespace))...))
	}
}

func TestMigrateRefusesALaterSchema(t *testing.T) {
	f := newFixture(t)
	must(t, f.Migrate(f.ctx))
	f.exec(t, "insert into "+pgx.Identifier{f.namespace, "effectonce_migrations"}.Sanitize()+" values ($1, 99)", postgres.DefaultTable)
	if err := f.Migrate(f.ctx); err == nil || !strings.Contains(err.Error(), "99") {
		t.Fatal(err)
	}
}

func TestAnyNameIsQuoted(t *testing.T) {
	dsn, ctx := testDSN(t), testContext(t)
	opts := postgres.Options{Schema: `eo "o'\;{table}` + strings.ToLower(rand.Text()[:6]), Table: `T "é"; drop`, Ledger: `{schema}.x`}
	s, err := postgres.Open(ctx, dsn, postgres.OpenOptions{Options: opts})
	must(t, err)
	defer s.Close()
	must(t, s.Migrate(ctx))
	must(t, s.Migrate(ctx))
	f := newFixture(t)
	defer func() {
		_, err := f.raw.Exec(f.ctx, "drop schema "+pgx.Identifier{opts.Schema}.Sanitize()+" cascade")
		must(t, err)
	}()
	must(t, s.Warm(ctx))
	r, claimed, err := s.Begin(ctx, "c", "m", at(0), lease)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	must(t, s.CommitEffect(ctx, "c", "m", r, at(0), model.Effect{ID: "e"}))
	if n, err := s.Prune(ctx, at(lease)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func TestTwoTablesOfOneSchemaAreTwoStores(t *testing.T) {
	f := newFixture(t)
	other, err := postgres.New(f.raw, postgres.Options{Schema: f.namespace, Table: "other", Ledger: "other_ledger"})
	must(t, err)
	_, _, err = other.Begin(f.ctx, "c", "m", at(0), lease)
	if err == nil || !strings.Contains(err.Error(), "migrated") || model.OutcomeOf(err) != model.NotApplied {
		t.Fatalf("before its migration: %v", err)
	}
	must(t, other.Migrate(f.ctx))
	f.begin(t, "m", at(0), lease)
	if _, claimed, err := other.Begin(f.ctx, "c", "m", at(0), lease); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
}

func TestMigrationSQLMakesTheSameTables(t *testing.T) {
	f := newFixture(t)
	texts, err := postgres.MigrationSQL(postgres.Options{Schema: f.namespace, Table: "by_hand", Ledger: "by_hand_ledger"})
	must(t, err)
	for _, text := range texts {
		f.exec(t, text)
	}
	s, err := postgres.New(f.raw, postgres.Options{Schema: f.namespace, Table: "by_hand", Ledger: "by_hand_ledger"})
	must(t, err)
	must(t, s.Warm(f.ctx))
}

// The plans are part of the promise: the turn comes before the token, and Prune walks the index.
func TestPlans(t *testing.T) {
	f := newFixture(t)
	f.exec(t, `insert into {table} (consumer, message_id, state, attempts, updated_at)
		select 'c', i::text, 'DONE', 1, $1::timestamptz + i * interval '1 second' from generate_series(1, 20000) i`, at(0))
	f.exec(t, "analyze {table}")
	explain := func(statement string, args ...any) string {
		t.Helper()
		rows, err := f.raw.Query(f.ctx, "explain (verbose, costs off) "+statement, args...)
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		return strings.Join(lines, "\n")
	}
	plan := explain(postgres.PruneSQL(f.namespace), at(lease), nil, f.table)
	if !strings.Contains(plan, "_prune") || strings.Contains(plan, "Seq Scan on "+f.namespace) {
		t.Errorf("prune does not walk its index, or scans the table:\n%s", plan)
	}
	plan = explain(postgres.ClaimSQL(f.namespace), "c", "m", at(0), at(lease), nil)
	source := plan[strings.LastIndex(plan, "CTE Scan on turn"):]
	if !strings.Contains(source, "nextval") {
		t.Errorf("the token is not drawn over the turn's row:\n%s", plan)
	}
}

package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// atVersion makes the schema as an earlier version of the code left it, with rows of each state.
func (f *fixture) atVersion(t *testing.T, opts postgres.Options, version int) {
	t.Helper()
	texts, err := postgres.MigrationSQL(opts)
	must(t, err)
	versions := pgx.Identifier{opts.Schema, "effectonce_migrations"}.Sanitize()
	f.exec(t, "create schema "+pgx.Identifier{opts.Schema}.Sanitize())
	f.exec(t, "create table "+versions+` (store text collate "C" not null, version int not null, primary key (store, version))`)
	for i, text := range texts[:version] {
		f.exec(t, text)
		f.exec(t, "insert into "+versions+" values ($1, $2)", opts.Table, i+1)
	}
	f.exec(t, "insert into "+pgx.Identifier{opts.Schema, opts.Table}.Sanitize()+` (consumer, message_id, state, attempts, lease_until, updated_at, nonce) values
		('c', 'live', 'PROCESSING', 3, $2, $1, 'n'), ('c', 'done', 'DONE', 2, null, $1, null)`, at(0), at(lease))
}

func TestAnEarlierSchemaIsBroughtUpWithItsData(t *testing.T) {
	f := newFixture(t)
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint("from version ", version), func(t *testing.T) {
			// The names are as long as they may be, so that the server has cut those of its constraints.
			opts := postgres.Options{Schema: "eo_up_" + strings.ToLower(rand.Text()[:10]), Table: strings.Repeat("é", 25) + `'"$`}
			f.atVersion(t, opts, version)
			defer func() { must(t, postgres.Drop(f.ctx, testDSN(t), opts.Schema)) }()

			var stores [3]*postgres.Store
			var errs [3]error
			for i := range stores {
				s, err := postgres.Open(f.ctx, testDSN(t), postgres.OpenOptions{Options: opts, Conns: 1})
				must(t, err)
				defer s.Close()
				stores[i] = s
			}
			_, _, err := stores[0].Begin(f.ctx, "c", "live", at(0), lease)
			if err == nil || !strings.Contains(err.Error(), "migrated") || model.OutcomeOf(err) != model.NotApplied {
				t.Fatalf("before the migration: %v", err)
			}
			together(len(errs), func(i int) { errs[i] = stores[i].Migrate(f.ctx) })
			must(t, errors.Join(append(errs[:], stores[0].Migrate(f.ctx), stores[0].Warm(f.ctx))...))
			s := stores[0]

			live, claimed, err := s.BeginAs(f.ctx, "c", "live", "n", at(0), lease)
			if err != nil || !claimed || live.Attempts != 3 || !live.LeaseUntil.Equal(at(lease)) || live.Reason != "" {
				t.Fatalf("%+v, %v, %v", live, claimed, err)
			}
			record, _, err := s.Begin(f.ctx, "c", "done", at(0), lease)
			if err != nil || record.State != model.Done || record.Attempts != 2 || record.Result != nil || !record.UpdatedAt.Equal(at(0)) {
				t.Fatalf("%+v, %v", record, err)
			}
			must(t, s.Bury(f.ctx, "c", "live", live, at(0), "r"))
			must(t, s.Replay(f.ctx, "c", "live", at(0)))
			live, _, err = s.Begin(f.ctx, "c", "live", at(0), lease)
			must(t, err)
			must(t, s.CompleteResult(f.ctx, "c", "live", live, at(0), []byte("0")))
			if n, err := s.Prune(f.ctx, at(lease)); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			table := pgx.Identifier{opts.Schema, opts.Table}.Sanitize()
			for _, wrong := range []string{"state = 'LOST', lease_until = null", "result = ''"} {
				_, _, err := s.Begin(f.ctx, "c", wrong, at(0), lease)
				must(t, err)
				if _, err := f.raw.Exec(f.ctx, "update "+table+" set "+wrong); err == nil {
					t.Errorf("the table took %s", wrong)
				}
			}
			inbox, err := postgres.NewInbox(f.raw, opts)
			must(t, err)
			if applied, err := inbox.ApplyOnce(f.ctx, "c", "m", at(0), model.Effect{ID: "e"}); !applied || err != nil {
				t.Fatal(applied, err)
			}
		})
	}
}

// During a rolling upgrade the earlier version's statements meet rows that were released.
func TestAnEarlierVersionsStatementsWorkOnThisSchema(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	must(t, f.Release(f.ctx, "c", "m", r, at(0), at(time.Second), "r"))
	f.exec(t, `insert into {table} as r (consumer, message_id, state, attempts, lease_until, updated_at, nonce)
		select 'c', 'm', 'PROCESSING', 1, $2, $1, null
		on conflict (consumer, message_id) do update
		set attempts = r.attempts + 1, lease_until = excluded.lease_until, updated_at = excluded.updated_at,
			token = default, nonce = excluded.nonce
		where r.state = 'PROCESSING' and r.lease_until <= $1`, at(time.Second), at(lease))
	taken, _, err := f.Lookup(f.ctx, "c", "m")
	must(t, err)
	if taken.Attempts != 2 {
		t.Fatalf("%+v", taken)
	}
	wantIs(t, f.CompleteClaim(f.ctx, "c", "m", r, at(0)), model.ErrFenced)
	f.exec(t, `update {table} r set state = 'DONE', lease_until = null, nonce = null, updated_at = $1
		where r.message_id = 'm' and r.state = 'PROCESSING'`, at(2*time.Second))
	must(t, f.CompleteClaim(f.ctx, "c", "m", taken, at(time.Hour)))
	record, claimed, err := f.Begin(f.ctx, "c", "m", at(time.Hour), lease)
	if err != nil || claimed || record.State != model.Done || !record.UpdatedAt.Equal(at(2*time.Second)) {
		t.Fatalf("%+v, %v, %v", record, claimed, err)
	}
	f.prune(t, at(time.Hour), 1)
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
	f.exec(t, `insert into `+pgx.Identifier{f.namespace, postgres.DefaultInbox}.Sanitize()+` (consumer, message_id, applied_at)
		select 'c', i::text, $1::timestamptz + i * interval '1 second' from generate_series(1, 20000) i`, at(0))
	f.exec(t, "analyze "+pgx.Identifier{f.namespace, postgres.DefaultInbox}.Sanitize())
	plan = explain(postgres.PruneInboxSQL(f.namespace), at(lease), nil, pgx.Identifier{f.namespace, postgres.DefaultInbox}.Sanitize())
	if !strings.Contains(plan, "_old") || strings.Contains(plan, "Seq Scan on "+f.namespace) {
		t.Errorf("the inbox's prune does not walk its index, or scans the table:\n%s", plan)
	}
	plan = explain(postgres.ClaimSQL(f.namespace), "c", "m", at(0), at(lease), nil)
	source := plan[strings.LastIndex(plan, "CTE Scan on turn"):]
	if !strings.Contains(source, "nextval") {
		t.Errorf("the token is not drawn over the turn's row:\n%s", plan)
	}
}

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

const waitAtMost = 30 * time.Second

var t0 = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// testDSN is the server under test.
func testDSN(t testing.TB) string {
	t.Helper()
	return relaxed.Need(t).DSN()
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
	t.Cleanup(cancel)
	return ctx
}

// testNamespace is a fresh namespace on the server under test.
func testNamespace(t testing.TB) string {
	t.Helper()
	return relaxed.namespace(t)
}

// fixture is one store: a handle, and the raw pool beside it to play the others with.
type fixture struct {
	*postgres.Store
	ctx       context.Context
	namespace string
	raw       *pgxpool.Pool
	table     string
}

func newFixture(t testing.TB) *fixture {
	return newFixtureOn(t, testNamespace(t), postgres.Options{})
}

func newFixtureOn(t testing.TB, namespace string, opts postgres.Options) *fixture {
	t.Helper()
	opts.Schema = namespace
	dsn := testDSN(t)
	store, err := postgres.Open(testContext(t), dsn, postgres.OpenOptions{Options: opts, ApplicationName: namespace, Conns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &fixture{
		Store: store, ctx: testContext(t), namespace: namespace, raw: relaxed.raw,
		table: pgx.Identifier{namespace, postgres.DefaultTable}.Sanitize(),
	}
}

// storeWith is a handle whose sessions start with these settings, on the fixture's namespace.
func (f *fixture) storeWith(t testing.TB, settings map[string]string, change ...func(*pgxpool.Config)) *postgres.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(testDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.MaxConns = 8
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(f.ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool, postgres.Options{Schema: f.namespace})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// inTx opens a transaction of somebody else's, runs the statement in it and leaves it open.
func (f *fixture) inTx(t testing.TB, statement string, args ...any) pgx.Tx {
	t.Helper()
	tx, err := f.raw.Begin(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(f.ctx, strings.ReplaceAll(statement, "{table}", f.table), args...); err != nil {
		t.Fatal(err)
	}
	return tx
}

func (f *fixture) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := f.raw.Exec(f.ctx, strings.ReplaceAll(statement, "{table}", f.table), args...); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) empty(t testing.TB) { f.exec(t, "truncate {table}") }

// behindRelay is a handle whose connections pass a relay.
func (f *fixture) behindRelay(t *testing.T) (*postgres.Store, *relay) {
	t.Helper()
	proxy := newRelay(t, testDSN(t))
	s, err := postgres.OpenWorker(f.ctx, testDSN(t), f.namespace, proxy.addr())
	must(t, err)
	t.Cleanup(s.Close)
	return s, proxy
}

// awaitBlocked returns once a session of the namespace waits for the given backend.
func (f *fixture) awaitBlocked(t testing.TB, by uint32) {
	t.Helper()
	f.await(t, "a session that waits for the lock", func() (blocked bool) {
		must(t, f.raw.QueryRow(f.ctx, `select coalesce(bool_or($1::int = any(pg_blocking_pids(pid))), false)
			from pg_stat_activity where wait_event_type = 'Lock'`, int64(by)).Scan(&blocked))
		return blocked
	})
}

// await asks until it is so, or the test's time is over.
func (f *fixture) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			t.Fatalf("there was never %s", what)
		}
	}
}

func pidOf(tx pgx.Tx) uint32 { return tx.Conn().PgConn().PID() }

// answer is what Begin said.
type answer struct {
	record  model.Record
	claimed bool
	err     error
}

func (f *fixture) begin(t testing.TB, id string, now time.Time, lease time.Duration) model.Record {
	t.Helper()
	record, claimed, err := f.Begin(f.ctx, "c", id, now, lease)
	if err != nil || !claimed {
		t.Fatalf("begin %q at %v: claimed %v, error %v; want a claim", id, now.Sub(t0), claimed, err)
	}
	return record
}

func (f *fixture) refused(t testing.TB, id string, now time.Time, want model.Record) {
	t.Helper()
	record, claimed, err := f.Begin(f.ctx, "c", id, now, time.Minute)
	if err != nil || claimed {
		t.Fatalf("begin %q at %v: claimed %v, error %v; want a refusal", id, now.Sub(t0), claimed, err)
	}
	same(t, record, want)
	f.stands(t, id, want)
}

// stands checks what is stored; a zero record means none.
func (f *fixture) stands(t testing.TB, id string, want model.Record) {
	t.Helper()
	record, found, err := f.Lookup(f.ctx, "c", id)
	if err != nil || found != (want.State != model.Absent) {
		t.Fatalf("lookup %q: found %v, error %v; want %+v", id, found, err, want)
	}
	same(t, record, want)
}

func same(t testing.TB, got, want model.Record) {
	t.Helper()
	if got.State != want.State || got.Attempts != want.Attempts || got.Token != want.Token ||
		!got.LeaseUntil.Equal(want.LeaseUntil) || !got.UpdatedAt.Equal(want.UpdatedAt) ||
		got.Reason != want.Reason || !bytes.Equal(got.Result, want.Result) || (got.Result == nil) != (want.Result == nil) {
		t.Fatalf("record is %+v\nwant      %+v", got, want)
	}
}

func done(claim model.Record, at time.Time) model.Record {
	claim.State, claim.LeaseUntil, claim.UpdatedAt, claim.Reason = model.Done, time.Time{}, at, ""
	return claim
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
	if model.OutcomeOf(err) != model.NotApplied {
		t.Fatalf("outcome of %v is %v", err, model.OutcomeOf(err))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asStranger is the DSN with a password and a user whom no server has: one that trusts refuses the user, any other
// asks for the password and refuses that.
func asStranger(t testing.TB, dsn, password string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	u := url.URL{Scheme: "postgres", User: url.UserPassword("eo_stranger", password),
		Host: fmt.Sprintf("%s:%d", config.Host, config.Port), Path: "/" + config.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

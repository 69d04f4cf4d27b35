package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

// inboxFixture is an inbox in a fixture's namespace; its table is what {table} stands for.
type inboxFixture struct {
	*fixture
	*postgres.Inbox
}

func newInboxFixture(t testing.TB, opts postgres.Options) *inboxFixture {
	t.Helper()
	f := newFixture(t)
	f.table = pgx.Identifier{f.namespace, postgres.DefaultInbox}.Sanitize()
	opts.Schema = f.namespace
	inbox, err := postgres.OpenInbox(f.ctx, testDSN(t), postgres.OpenOptions{Options: opts, ApplicationName: f.namespace, Conns: 8})
	must(t, err)
	t.Cleanup(inbox.Close)
	return &inboxFixture{fixture: f, Inbox: inbox}
}

func (f *inboxFixture) applies(t testing.TB, id string, now time.Time, want bool) {
	t.Helper()
	applied, err := f.ApplyOnce(f.ctx, "c", id, now, model.Effect{ID: id, Account: "a", Amount: 1})
	if err != nil || applied != want {
		t.Fatalf("apply %q: %v, %v; want %v", id, applied, err, want)
	}
}

func (f *inboxFixture) marked(t testing.TB, id string, want time.Time) {
	t.Helper()
	record, found, err := f.Inbox.Lookup(f.ctx, "c", id)
	if err != nil || found == want.IsZero() {
		t.Fatalf("lookup %q: %v, %v", id, found, err)
	}
	if found {
		same(t, record, model.Record{State: model.Done, UpdatedAt: want})
	}
}

func (f *inboxFixture) prunes(t testing.TB, before time.Time, want int) {
	t.Helper()
	if n, err := f.Inbox.Prune(f.ctx, before); n != want || err != nil {
		t.Fatalf("pruned %d, %v; want %d", n, err, want)
	}
}

// with is an inbox whose sessions start with these settings.
func (f *inboxFixture) with(t testing.TB, settings map[string]string, mode pgx.QueryExecMode) *postgres.Inbox {
	t.Helper()
	config, err := pgxpool.ParseConfig(testDSN(t))
	must(t, err)
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 8, mode
	pool, err := pgxpool.NewWithConfig(f.ctx, config)
	must(t, err)
	t.Cleanup(pool.Close)
	inbox, err := postgres.NewInbox(pool, postgres.Options{Schema: f.namespace})
	must(t, err)
	return inbox
}

func TestAnInboxAppliesOncePerKey(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	f.marked(t, "m", time.Time{})
	f.applies(t, "m", at(1999), true)
	f.marked(t, "m", at(time.Microsecond))
	f.applies(t, "m", at(time.Hour), false)
	f.applies(t, "m", at(-time.Hour), false)
	f.marked(t, "m", at(time.Microsecond))
	want := model.Applied{Consumer: "c", MessageID: "m", Effect: model.Effect{ID: "m", Account: "a", Amount: 1}}
	if got := f.effects(t, 1)[0]; got != want {
		t.Fatalf("effect %+v, want %+v", got, want)
	}
	keys := [][2]string{{"a|b", "c"}, {"a", "b|c"}, {"a", "B|c"}, {"a", "b|c "}, {"\u00e9", "x"}, {"e\u0301", "x"}}
	for _, k := range keys {
		if applied, err := f.ApplyOnce(f.ctx, k[0], k[1], at(0), model.Effect{ID: "e"}); !applied || err != nil {
			t.Fatalf("%q: %v, %v", k, applied, err)
		}
	}

	// The store beside it is another memory, and both write to the one ledger.
	r := f.begin(t, "m", at(0), lease)
	must(t, f.CommitEffect(f.ctx, "c", "m", r, at(0), model.Effect{ID: "store's"}))
	f.effects(t, len(keys)+2)
}

func TestSixApplyOneMessageOnce(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	rounds := 0
	for name, settings := range sessions() {
		inbox := f.with(t, settings, pgx.QueryExecModeCacheStatement)
		for range 15 {
			id := fmt.Sprint(name, rounds)
			rounds++
			var applied atomic.Int64
			var errs [6]error
			together(len(errs), func(i int) {
				yes, err := inbox.ApplyOnce(f.ctx, "c", id, at(0), model.Effect{ID: fmt.Sprint(id, "/", i)})
				if errs[i] = err; yes {
					applied.Add(1)
				}
			})
			must(t, errors.Join(errs[:]...))
			if applied.Load() != 1 {
				t.Fatalf("%s was applied %d times", id, applied.Load())
			}
		}
	}
	f.effects(t, rounds)
}

func TestAnApplicationWaitsForWhoeverIsFaster(t *testing.T) {
	const insert = "insert into {table} (consumer, message_id, applied_at) values ('c', 'm', $1)"
	const remove = "delete from {table} where applied_at = $1"
	f := newInboxFixture(t, postgres.Options{})
	type answer struct {
		applied bool
		err     error
	}
	for session, settings := range sessions() {
		inbox := f.with(t, settings, pgx.QueryExecModeCacheStatement)
		for name, c := range map[string]struct {
			there     bool
			statement string
			commit    bool
			applied   bool
		}{
			"a mark":          {false, insert, true, false},
			"a mark, undone":  {false, insert, false, true},
			"a prune":         {true, remove, true, true},
			"a prune, undone": {true, remove, false, false},
		} {
			t.Run(name+", "+session, func(t *testing.T) {
				f.empty(t)
				if c.there {
					f.exec(t, insert, at(0))
				}
				tx := f.inTx(t, c.statement, at(0))
				answers := make(chan answer, 1)
				go func() {
					applied, err := inbox.ApplyTx(f.ctx, "c", "m", at(1), func(pgx.Tx) error { return nil })
					answers <- answer{applied, err}
				}()
				f.awaitBlocked(t, pidOf(tx))
				if c.commit {
					must(t, tx.Commit(f.ctx))
				} else {
					must(t, tx.Rollback(f.ctx))
				}
				if a := <-answers; a.err != nil || a.applied != c.applied {
					t.Fatalf("%+v", a)
				}
				f.marked(t, "m", at(0))
			})
		}
	}
}

func TestApplyTxIsBothOrNeither(t *testing.T) {
	errWork := errors.New("no stock")
	f := newInboxFixture(t, postgres.Options{})
	again := "insert into " + f.table + " (consumer, message_id, applied_at) values ('c', $1, now())"
	for name, work := range map[string]func(id string, tx pgx.Tx) error{
		"the function fails":            func(id string, tx pgx.Tx) error { return errors.Join(f.effect(tx, id), errWork) },
		"a unique violation":            func(id string, tx pgx.Tx) error { _, err := tx.Exec(f.ctx, again, id); return err },
		"a unique violation, unnoticed": func(id string, tx pgx.Tx) error { _, _ = tx.Exec(f.ctx, again, id); return nil },
		"the function tries to commit":  func(id string, tx pgx.Tx) error { _ = f.effect(tx, id); return tx.Commit(f.ctx) },
		"the function rolls back":       func(id string, tx pgx.Tx) error { _ = f.effect(tx, id); return tx.Rollback(f.ctx) },
	} {
		applied, err := f.ApplyTx(f.ctx, "c", name, at(0), func(tx pgx.Tx) error { return work(name, tx) })
		if err == nil || applied || model.OutcomeOf(err) != model.NotApplied {
			t.Fatalf("%s: applied %v, error %v, outcome %v", name, applied, err, model.OutcomeOf(err))
		}
		if strings.HasSuffix(name, "fails") {
			wantIs(t, err, errWork)
		}
		f.marked(t, name, time.Time{})
	}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = f.ApplyTx(f.ctx, "c", "m", at(0), func(tx pgx.Tx) error { _ = f.effect(tx, "m"); panic("boom") })
	}()
	f.marked(t, "m", time.Time{})
	ctx, cancel := context.WithCancel(f.ctx)
	_, err := f.ApplyTx(ctx, "c", "m", at(0), func(pgx.Tx) error { cancel(); return nil })
	wantIs(t, err, context.Canceled)
	f.effects(t, 0)

	ran := 0
	for _, want := range []bool{true, false} {
		applied, err := f.ApplyTx(f.ctx, "c", "m", at(0), func(tx pgx.Tx) error { ran++; return f.effect(tx, "m") })
		if err != nil || applied != want {
			t.Fatal(applied, err)
		}
	}
	if ran != 1 {
		t.Fatalf("work ran %d times", ran)
	}
	f.effects(t, 1)
}

// What fails at the commit, after everything else, leaves no mark.
func TestAFailureAtTheCommitLeavesNoMark(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	schema := pgx.Identifier{f.namespace}.Sanitize()
	f.exec(t, "create function "+schema+".no() returns trigger language plpgsql as $$ begin raise exception 'not at commit'; end $$")
	f.exec(t, "create constraint trigger late after insert on {table} deferrable initially deferred for each row execute function "+schema+".no()")
	applied, err := f.ApplyOnce(f.ctx, "c", "m", at(0), model.Effect{ID: "e"})
	if applied || err == nil || model.OutcomeOf(err) != model.NotApplied {
		t.Fatalf("applied %v, error %v", applied, err)
	}
	f.marked(t, "m", time.Time{})
	f.effects(t, 0)
}

func TestAStalledApplicationGivesTheKeyBack(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{CommitIdle: 50 * time.Millisecond})
	applied, err := f.ApplyTx(f.ctx, "c", "m", at(0), func(tx pgx.Tx) error {
		if err := f.effect(tx, "stalled"); err != nil {
			return err
		}
		f.applies(t, "m", at(1*time.Second), true) // waits until the server has ended the block
		return nil
	})
	if applied || err == nil {
		t.Fatal("a block that the server had ended was committed")
	}
	f.marked(t, "m", at(1*time.Second))
	f.effects(t, 1)
}

// inboxBehindRelay is a warm handle whose connections pass a relay.
func (f *inboxFixture) inboxBehindRelay(t *testing.T) (*postgres.Inbox, *relay) {
	t.Helper()
	proxy := newRelay(t, testDSN(t))
	inbox, err := postgres.OpenInboxWorker(f.ctx, testDSN(t), f.namespace, proxy.addr())
	must(t, err)
	t.Cleanup(inbox.Close)
	must(t, inbox.Warm(f.ctx))
	return inbox, proxy
}

func TestALostReplyToAnApplicationsCommitIsUnknown(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	inbox, proxy := f.inboxBehindRelay(t)
	applied, err := inbox.ApplyTx(f.ctx, "c", "m", at(0), func(tx pgx.Tx) error {
		err := f.effect(tx, "m")
		proxy.swallowReplies()
		return err
	})
	if applied || err == nil || model.OutcomeOf(err) != model.Unknown {
		t.Fatalf("applied %v, error %v, outcome %v", applied, err, model.OutcomeOf(err))
	}
	must(t, postgres.Settled(f.ctx, testDSN(t), f.namespace))
	f.applies(t, "m", at(0), false)
	f.effects(t, 1)
}

func TestAnApplicationsRoundTrips(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	inbox, proxy := f.inboxBehindRelay(t)
	apply := func() error { _, err := inbox.ApplyOnce(f.ctx, "c", "m", at(0), model.Effect{ID: "e"}); return err }
	for _, c := range []struct {
		name  string
		trips int
		call  func() error
	}{
		{"apply", 3, apply},
		{"apply, a duplicate", 2, apply},
		{"lookup", 1, func() error { _, _, err := inbox.Lookup(f.ctx, "c", "m"); return err }},
		{"prune", 1, func() error { _, err := inbox.Prune(f.ctx, at(0)); return err }},
	} {
		trips, parsed := proxy.trips(), proxy.count('P')
		must(t, c.call())
		if got := proxy.trips() - trips; got != c.trips || proxy.count('P') != parsed {
			t.Errorf("%s took %d round trips, %d statements parsed; want %d, 0", c.name, got, proxy.count('P')-parsed, c.trips)
		}
	}
}

func TestAnInboxWorksInEveryExecMode(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{})
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		inbox := f.with(t, map[string]string{"default_transaction_isolation": "repeatable read", "TimeZone": "Asia/Kathmandu"}, mode)
		for _, want := range []bool{true, false} {
			applied, err := inbox.ApplyOnce(f.ctx, "c", `o'\"$1`, at(0), model.Effect{ID: "e", Amount: -7})
			if err != nil || applied != want {
				t.Fatalf("%v: %v, %v", mode, applied, err)
			}
		}
		record, found, err := inbox.Lookup(f.ctx, "c", `o'\"$1`)
		if err != nil || !found || !record.UpdatedAt.Equal(at(0)) {
			t.Fatalf("%v: %+v, %v", mode, record, err)
		}
		if n, err := inbox.Prune(f.ctx, at(time.Microsecond)); n != 1 || err != nil {
			t.Fatalf("%v: %v, %v", mode, n, err)
		}
	}
}

func TestAnInboxRefusesBadInputBeforeAnyIO(t *testing.T) {
	inbox, err := postgres.NewInbox(unreachablePool(t), postgres.Options{})
	must(t, err)
	ctx := testContext(t)
	apply := func(c, id string, now time.Time, e model.Effect) error {
		_, err := inbox.ApplyOnce(ctx, c, id, now, e)
		return err
	}
	for _, bad := range []badInput{
		{"consumer", apply("", "m", at(0), model.Effect{})},
		{"message id", apply("c", "\xff", at(0), model.Effect{})},
		{"now", apply("c", "m", time.Time{}, model.Effect{})},
		{"effect id", apply("c", "m", at(0), model.Effect{ID: "\x00"})},
		{"account", apply("c", "m", at(0), model.Effect{Account: "\xff"})},
		{"function", func() error { _, err := inbox.ApplyTx(ctx, "c", "m", at(0), nil); return err }()},
		{"message id", func() error {
			_, err := inbox.ApplyTx(ctx, "c", "", at(0), func(pgx.Tx) error { return nil })
			return err
		}()},
		{"before", func() error { _, err := inbox.Prune(ctx, time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC)); return err }()},
		{"consumer", func() error { _, _, err := inbox.Lookup(ctx, "", "m"); return err }()},
	} {
		bad.isNamed(t)
	}
	if _, err := postgres.NewInbox(nil, postgres.Options{}); err == nil {
		t.Error("no pool was accepted")
	}
	for _, opts := range []postgres.OpenOptions{{Options: postgres.Options{Inbox: postgres.DefaultTable}}, {Conns: -1}} {
		if _, err := postgres.OpenInbox(ctx, "postgres://127.0.0.1:1/x", opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

func TestAnInboxPrunesOldMarksAndNothingElse(t *testing.T) {
	for _, batch := range []int{2, 100} {
		f := newInboxFixture(t, postgres.Options{PruneBatch: batch})
		f.prunes(t, at(time.Hour), 0)
		for i := range 5 {
			f.applies(t, fmt.Sprint("m", i), at(time.Duration(i)*time.Microsecond), true)
		}
		r := f.fill(t, "the store's", at(0))
		f.prunes(t, at(0), 0)
		f.prunes(t, at(2999), 2)
		f.marked(t, "m2", at(2*time.Microsecond))
		f.applies(t, "m2", at(time.Hour), false)
		f.applies(t, "m0", at(time.Hour), true)
		f.prunes(t, at(3000), 1)
		f.prunes(t, at(time.Hour), 2)
		f.stands(t, "the store's", r)
		f.prunes(t, at(time.Hour+time.Microsecond), 1)
		f.effects(t, 6)
	}
}

// Whoever applies old messages as fast as Prune forgets them must not keep it for ever.
func TestAnInboxLeavesWhatWasMarkedAfterThePruneBegan(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{PruneBatch: 1})
	for i := range 3 {
		f.applies(t, fmt.Sprint("m", i), at(time.Duration(i)*time.Microsecond), true)
	}
	tx := f.inTx(t, "select from {table} where message_id = 'm1' for update")
	answers := make(chan pruned, 1)
	go func() {
		n, err := f.Inbox.Prune(f.ctx, at(time.Hour))
		answers <- pruned{n, err}
	}()
	f.awaitBlocked(t, pidOf(tx))
	f.applies(t, "late", at(time.Minute), true)
	must(t, tx.Commit(f.ctx))
	if a := <-answers; a.err != nil || a.n != 3 {
		t.Fatalf("%+v, want 3", a)
	}
	f.marked(t, "late", at(time.Minute))
}

func TestPrunesOfOneInboxShareTheMarks(t *testing.T) {
	f := newInboxFixture(t, postgres.Options{PruneBatch: 7})
	const old, busy = 200, 40
	f.exec(t, `insert into {table} (consumer, message_id, applied_at)
		select 'c', 'old' || i, $1::timestamptz - interval '1 day' from generate_series(1, $2::int) i`, at(0), old)
	var removed atomic.Int64
	errs := make([]error, 5)
	together(len(errs), func(i int) {
		if i < 3 {
			n, err := f.Inbox.Prune(f.ctx, at(0))
			removed.Add(int64(n))
			errs[i] = err
			return
		}
		for n := range busy { // new messages, and duplicates of old ones, which may come before the prune or after
			applied, err := f.ApplyOnce(f.ctx, "c", fmt.Sprint("new", i, "/", n), at(0), model.Effect{ID: "e"})
			if err == nil && !applied {
				err = errors.New("not applied")
			}
			_, dup := f.ApplyOnce(f.ctx, "c", fmt.Sprint("old", n), at(0), model.Effect{ID: "e"})
			errs[i] = errors.Join(errs[i], err, dup)
		}
	})
	must(t, errors.Join(errs...))
	if removed.Load() != old {
		t.Fatalf("three prunes removed %d together, %d were there", removed.Load(), old)
	}
}

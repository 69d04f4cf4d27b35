package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

// together runs n calls that start at once.
func together(n int, call func(i int)) {
	var ready, ended sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		ended.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	ended.Wait()
}

// sessions are the settings under which contention must be answered alike.
func sessions() map[string]map[string]string {
	return map[string]map[string]string{
		"read committed":  {"default_transaction_isolation": "read committed"},
		"repeatable read": {"default_transaction_isolation": "repeatable read"},
		"serializable":    {"default_transaction_isolation": "serializable"},
	}
}

func TestOneOfSixClaims(t *testing.T) {
	for name, settings := range sessions() {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.storeWith(t, settings)
			for round := range 25 {
				id := fmt.Sprint("m", round)
				oneOfSix(t, f.ctx, s, id, at(0), 1)
				oneOfSix(t, f.ctx, s, id, at(lease), 2)
			}
		})
	}
}

func oneOfSix(t *testing.T, ctx context.Context, s *postgres.Store, id string, now time.Time, attempts int) {
	t.Helper()
	var answers [6]answer
	together(len(answers), func(i int) {
		a := &answers[i]
		a.record, a.claimed, a.err = s.Begin(ctx, "c", id, now, lease)
	})
	var winner *model.Record
	for i := range answers {
		if answers[i].err != nil {
			t.Fatal(answers[i].err)
		}
		if answers[i].claimed {
			if winner != nil {
				t.Fatalf("two claims of %s", id)
			}
			winner = &answers[i].record
		}
	}
	if winner == nil || winner.Attempts != attempts {
		t.Fatalf("winner of %s is %+v, want attempt %d", id, winner, attempts)
	}
	for _, a := range answers {
		same(t, a.record, *winner)
	}
}

func TestEqualNoncesShareOneClaim(t *testing.T) {
	f := newFixture(t)
	var answers [6]answer
	together(len(answers), func(i int) {
		a := &answers[i]
		a.record, a.claimed, a.err = f.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
	})
	for _, a := range answers {
		if a.err != nil || !a.claimed {
			t.Fatalf("%+v", a)
		}
		same(t, a.record, answers[0].record)
	}
}

// Each case lets somebody else's open transaction stand in Begin's way, and ends it while Begin waits.
func TestBeginWaitsForWhoeverIsFaster(t *testing.T) {
	const (
		insertLive = `insert into {table} (consumer, message_id, state, attempts, lease_until, updated_at) values ('c', 'm', 'PROCESSING', 1, $1::timestamptz + '1 hour', $1)`
		insertDone = `insert into {table} (consumer, message_id, state, attempts, updated_at) values ('c', 'm', 'DONE', 1, $1)`
		takeOver   = `update {table} set attempts = attempts + 1, lease_until = $1::timestamptz + '1 hour', token = default, updated_at = $1`
		complete   = `update {table} set state = 'DONE', lease_until = null, updated_at = $1`
		forget     = `delete from {table} where $1::timestamptz is not null`
	)
	f := newFixture(t)
	for name, c := range map[string]struct {
		expired, commit bool
		statement       string
		claimed         bool
		state           model.State
		attempts        int
	}{
		"insert of a claim":             {false, true, insertLive, false, model.Processing, 1},
		"insert of a claim, undone":     {false, false, insertLive, true, model.Processing, 1},
		"insert of done":                {false, true, insertDone, false, model.Done, 1},
		"takeover":                      {true, true, takeOver, false, model.Processing, 2},
		"takeover, undone":              {true, false, takeOver, true, model.Processing, 2},
		"completion":                    {true, true, complete, false, model.Done, 1},
		"completion, undone":            {true, false, complete, true, model.Processing, 2},
		"a removal that no store makes": {true, true, forget, true, model.Processing, 1},
	} {
		for session, settings := range sessions() {
			t.Run(name+", "+session, func(t *testing.T) {
				f.empty(t)
				s := f.storeWith(t, settings)
				if c.expired {
					f.begin(t, "m", at(-time.Hour), lease)
				}
				tx := f.inTx(t, c.statement, at(0))
				answers := make(chan answer, 1)
				go func() {
					r, claimed, err := s.Begin(f.ctx, "c", "m", at(0), lease)
					answers <- answer{r, claimed, err}
				}()
				f.awaitBlocked(t, pidOf(tx))
				if c.commit {
					must(t, tx.Commit(f.ctx))
				} else {
					must(t, tx.Rollback(f.ctx))
				}
				a := <-answers
				if a.err != nil || a.claimed != c.claimed || a.record.State != c.state || a.record.Attempts != c.attempts {
					t.Fatalf("answer %+v", a)
				}
				f.stands(t, "m", a.record)
			})
		}
	}
}

func TestCompletionsWaitForWhoeverIsFaster(t *testing.T) {
	for session, settings := range sessions() {
		t.Run(session, func(t *testing.T) {
			f := newFixture(t)
			s := f.storeWith(t, settings)
			first := f.begin(t, "m", at(0), lease)
			blocked := func(call func() error) chan error {
				errs := make(chan error, 1)
				go func() { errs <- call() }()
				return errs
			}
			tx := f.inTx(t, `update {table} set attempts = attempts + 1, token = default, lease_until = $1`, at(time.Hour))
			errs := blocked(func() error { return s.CompleteClaim(f.ctx, "c", "m", first, at(0)) })
			f.awaitBlocked(t, pidOf(tx))
			must(t, tx.Commit(f.ctx))
			wantIs(t, <-errs, model.ErrFenced)

			current, _, err := f.Lookup(f.ctx, "c", "m")
			must(t, err)
			tx = f.inTx(t, `update {table} set state = 'DONE', lease_until = null, updated_at = $1`, at(time.Minute))
			errs = blocked(func() error { return s.Complete(f.ctx, "c", "m", at(time.Hour)) })
			again := blocked(func() error { return s.CompleteClaim(f.ctx, "c", "m", current, at(time.Hour)) })
			effect := blocked(func() error {
				return s.CommitEffect(f.ctx, "c", "m", current, at(time.Hour), model.Effect{ID: "never"})
			})
			f.awaitBlocked(t, pidOf(tx))
			must(t, tx.Commit(f.ctx))
			must(t, <-errs)
			must(t, <-again)
			must(t, <-effect)
			f.stands(t, "m", done(current, at(time.Minute)))
			f.effects(t, 0)
		})
	}
}

func TestTheSessionsIsolationIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	config, err := pgxpool.ParseConfig(testDSN(t))
	must(t, err)
	config.MaxConns = 1
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	var notices []string
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	pool, err := pgxpool.NewWithConfig(f.ctx, config)
	must(t, err)
	defer pool.Close()
	s, err := postgres.New(pool, postgres.Options{Schema: f.namespace})
	must(t, err)
	f.begin(t, "m", at(0), lease)
	must(t, s.Complete(f.ctx, "c", "m", at(0)))
	var level string
	must(t, pool.QueryRow(f.ctx, "show transaction_isolation").Scan(&level))
	if level != "serializable" || len(notices) > 0 {
		t.Fatalf("the next user of the connection finds %q; notices %q", level, notices)
	}
}

func TestEveryExecModeWorks(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			f := newFixture(t)
			settings := map[string]string{"default_transaction_isolation": "repeatable read", "TimeZone": "Asia/Kathmandu"}
			s := f.storeWith(t, settings, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			oneOfSix(t, f.ctx, s, `o'\"$1`, at(0), 1)
			oneOfSix(t, f.ctx, s, `o'\"$1`, at(lease), 2)
			r, claimed, err := s.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
			if err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			must(t, s.CommitEffect(f.ctx, "c", "m", r, at(0), model.Effect{ID: "e", Account: "a", Amount: -7}))
			must(t, s.CompleteClaim(f.ctx, "c", "m", r, at(time.Hour)))
			f.stands(t, "m", done(r, at(0)))
			everyOwnerCall(t, f, s)
			if n, err := s.Prune(f.ctx, at(time.Microsecond)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		})
	}
}

// everyOwnerCall makes each of them once, with bytes and words that a text form must quote.
func everyOwnerCall(t *testing.T, f *fixture, s *postgres.Store) {
	t.Helper()
	const words = `it's \ "quoted" $1 é`
	r := f.begin(t, "owned", at(0), lease)
	extended, err := s.Extend(f.ctx, "c", "owned", r, at(time.Second), lease)
	must(t, err)
	r.LeaseUntil = at(time.Second + lease)
	same(t, extended, r)
	must(t, s.Release(f.ctx, "c", "owned", r, at(0), at(0), words))
	r = f.begin(t, "owned", at(0), lease)
	must(t, s.Bury(f.ctx, "c", "owned", r, at(0), words))
	must(t, s.Replay(f.ctx, "c", "owned", at(0)))
	r = f.begin(t, "owned", at(lease), lease)
	if r.Attempts != 3 || r.Reason != words {
		t.Fatalf("%+v", r)
	}
	must(t, s.CompleteResult(f.ctx, "c", "owned", r, at(lease), []byte("\x00'\\\xff")))
	want := done(r, at(lease))
	want.Result = []byte("\x00'\\\xff")
	record, claimed, err := s.Begin(f.ctx, "c", "owned", at(0), lease)
	if err != nil || claimed {
		t.Fatal(claimed, err)
	}
	same(t, record, want)
}

// While a claim's turn is held up, others draw numbers; a claim that had drawn before its turn would come out below
// them, and below a record that was completed and pruned meanwhile.
func TestATokenIsDrawnInTheKeysTurn(t *testing.T) {
	f := newFixture(t)
	const turn = "select pg_advisory_xact_lock(hashtextextended('c', hashtextextended('m', $1::bigint)))"
	tx := f.inTx(t, turn, postgres.LockSeed(f.namespace))
	answers := make(chan answer, 1)
	go func() {
		r, claimed, err := f.Begin(f.ctx, "c", "m", at(0), lease)
		answers <- answer{r, claimed, err}
	}()
	f.awaitBlocked(t, pidOf(tx))
	other := f.begin(t, "other", at(0), lease)
	must(t, tx.Commit(f.ctx))
	a := <-answers
	if a.err != nil || !a.claimed {
		t.Fatalf("%+v", a)
	}
	increases(t, other, a.record)
}

func TestARefusedDuplicateWritesNothingAndWaitsForNobody(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	must(t, f.CompleteClaim(f.ctx, "c", "m", r, at(0)))
	version := func() (v string) {
		must(t, f.raw.QueryRow(f.ctx, "select concat_ws(' ', ctid, xmin, xmax) from "+f.table).Scan(&v))
		return v
	}
	before := version()
	f.refused(t, "m", at(time.Hour), done(r, at(0)))
	if after := version(); after != before {
		t.Fatalf("the row was %s, is %s", before, after)
	}
	f.inTx(t, "select from {table} for update")
	f.refused(t, "m", at(time.Hour), done(r, at(0)))
}

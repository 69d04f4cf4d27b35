package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func TestNoErrorCarriesAPassword(t *testing.T) {
	const secret = "hunter2-zq"
	ctx := testContext(t)
	dsns := map[string]string{
		"port":      "postgres://user:" + secret + "@127.0.0.1:port/db",
		"escape":    "postgres://user:" + secret + "%zz@127.0.0.1/db",
		"slash":     "postgres://user:" + secret + "/x@127.0.0.1:5432/db",
		"quote":     "host=127.0.0.1 password='" + secret,
		"no scheme": "user:" + secret + "@127.0.0.1/db",
		"spaces":    "host=127.0.0.1 password = " + secret + " port=x",
		"parameter": "postgres://127.0.0.1/db?password=" + secret + "&sslmode=nonsense",
		"closed":    "postgres://user:" + secret + "@127.0.0.1:1/db?connect_timeout=2",
	}
	dsns["refused by the server"] = asStranger(t, testDSN(t), secret)
	for name, dsn := range dsns {
		t.Run(name, func(t *testing.T) {
			errs := map[string]error{
				"prepare": postgres.Prepare(ctx, dsn, "ns"),
				"control": postgres.Control(ctx, dsn, ""),
				"settled": postgres.Settled(ctx, dsn, "ns"),
			}
			s, err := postgres.Open(ctx, dsn, postgres.OpenOptions{})
			if err == nil {
				_, _, err = s.Begin(ctx, "c", "m", at(0), lease)
				if model.OutcomeOf(err) != model.NotApplied {
					t.Errorf("no connection, outcome %v", model.OutcomeOf(err))
				}
				s.Close()
			}
			errs["open"] = err
			for call, err := range errs {
				if err == nil {
					t.Errorf("%s: no error", call)
					continue
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if text := fmt.Sprintf("%v %+v %s", e, e, e.Error()); strings.Contains(text, secret) {
						t.Errorf("%s tells the password: %s", call, text)
					}
				}
			}
		})
	}
}

func TestOpenDialsTheGivenAddress(t *testing.T) {
	f := newFixture(t)
	s, proxy := f.behindRelay(t)
	if _, claimed, err := s.Begin(f.ctx, "c", "m", at(0), lease); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if proxy.count('p') == 0 && proxy.count('S') == 0 {
		t.Fatal("nothing came by the given address")
	}
	must(t, postgres.Control(f.ctx, testDSN(t), proxy.addr()))
	for _, addr := range []string{"nowhere", ":5432", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65536"} {
		if _, err := postgres.Open(f.ctx, testDSN(t), postgres.OpenOptions{Addr: addr}); err == nil {
			t.Errorf("address %q was accepted", addr)
		}
	}
}

func TestEachCallIsOneRoundTripOnceWarm(t *testing.T) {
	f := newFixture(t)
	s, proxy := f.behindRelay(t)
	must(t, s.Warm(f.ctx))
	var r model.Record
	for _, c := range []struct {
		name  string
		trips int
		call  func() error
	}{
		{"begin", 1, func() (err error) { r, _, err = s.Begin(f.ctx, "c", "m", at(0), lease); return err }},
		{"begin, refused", 1, func() error { _, _, err := s.Begin(f.ctx, "c", "m", at(0), lease); return err }},
		{"begin as", 1, func() error { _, _, err := s.BeginAs(f.ctx, "c", "m2", "n", at(0), lease); return err }},
		{"complete", 1, func() error { return s.Complete(f.ctx, "c", "m2", at(0)) }},
		{"commit effect", 3, func() error { return s.CommitEffect(f.ctx, "c", "m", r, at(0), model.Effect{ID: "e"}) }},
		{"complete claim", 1, func() error { return s.CompleteClaim(f.ctx, "c", "m", r, at(0)) }},
		{"begin", 1, func() (err error) { r, _, err = s.Begin(f.ctx, "c", "m3", at(0), lease); return err }},
		{"extend", 1, func() error { _, err := s.Extend(f.ctx, "c", "m3", r, at(0), lease); return err }},
		{"release", 1, func() error { return s.Release(f.ctx, "c", "m3", r, at(0), at(0), "why") }},
		{"begin", 1, func() (err error) { r, _, err = s.Begin(f.ctx, "c", "m3", at(0), lease); return err }},
		{"bury", 1, func() error { return s.Bury(f.ctx, "c", "m3", r, at(0), "why") }},
		{"replay", 1, func() error { return s.Replay(f.ctx, "c", "m3", at(0)) }},
		{"begin", 1, func() (err error) { r, _, err = s.Begin(f.ctx, "c", "m3", at(0), lease); return err }},
		{"complete result", 1, func() error { return s.CompleteResult(f.ctx, "c", "m3", r, at(0), []byte("0")) }},
		{"lookup", 1, func() error { _, _, err := s.Lookup(f.ctx, "c", "m"); return err }},
		{"prune", 1, func() error { _, err := s.Prune(f.ctx, at(lease)); return err }},
	} {
		trips, parsed := proxy.trips(), proxy.count('P')
		must(t, c.call())
		if got := proxy.trips() - trips; got != c.trips || proxy.count('P') != parsed {
			t.Errorf("%s took %d round trips, %d statements parsed; want %d, 0", c.name, got, proxy.count('P')-parsed, c.trips)
		}
	}
}

func TestAConnectionThatTheServerEndedIsNotUsed(t *testing.T) {
	f := newFixture(t)
	must(t, f.Warm(f.ctx))
	must(t, postgres.HangUp(f.ctx, testDSN(t), f.namespace))
	f.begin(t, "m", at(0), lease)
}

func TestALostReplyIsUnknown(t *testing.T) {
	f := newFixture(t)
	s, proxy := f.behindRelay(t)
	must(t, s.Warm(f.ctx))
	proxy.swallowReplies()
	_, claimed, err := s.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
	if err == nil || claimed || model.OutcomeOf(err) != model.Unknown {
		t.Fatalf("claimed %v, error %v, outcome %v", claimed, err, model.OutcomeOf(err))
	}
	must(t, postgres.Settled(f.ctx, testDSN(t), f.namespace))
	r, claimed, err := f.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
	if err != nil || !claimed || r.Attempts != 1 {
		t.Fatalf("asked again: %+v, %v, %v; want the first claim back", r, claimed, err)
	}
}

// pgx answers a lost reply to a simple query with "conn closed", which it calls safe to retry. It is not: the
// transaction was committed.
func TestALostReplyToTheCommitIsUnknown(t *testing.T) {
	f := newFixture(t)
	s, proxy := f.behindRelay(t)
	must(t, s.Warm(f.ctx))
	r := f.begin(t, "m", at(0), lease)
	claim := postgres.Claim{Consumer: "c", MessageID: "m", Record: r, Now: at(0)}
	err := s.CommitTx(f.ctx, claim, func(pgx.Tx) error {
		proxy.swallowReplies()
		return nil
	})
	if err == nil || model.OutcomeOf(err) != model.Unknown {
		t.Fatalf("error %v, outcome %v", err, model.OutcomeOf(err))
	}
	must(t, postgres.Settled(f.ctx, testDSN(t), f.namespace))
	if r, found, err := f.Lookup(f.ctx, "c", "m"); err != nil || !found || r.State != model.Done {
		t.Fatalf("the commit was not done: %+v, %v, %v", r, found, err)
	}
}

func TestCloseLeavesACallersPoolOpen(t *testing.T) {
	f := newFixture(t)
	s, err := postgres.New(f.raw, postgres.Options{Schema: f.namespace})
	must(t, err)
	s.Close()
	must(t, f.raw.Ping(f.ctx))
	f.Close()
	f.Close()
	_, _, err = f.Begin(f.ctx, "c", "m", at(0), lease)
	if model.OutcomeOf(err) != model.NotApplied {
		t.Fatalf("closed: %v", err)
	}
	if _, err := postgres.New(nil, postgres.Options{}); err == nil {
		t.Fatal("no pool was accepted")
	}
}

func TestBlockedNamesWhoIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.begin(t, "m", at(0), lease)
	holder := f.inTx(t, "select from {table} for update")
	waiter := f.inTx(t, "select 1")
	ended := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(f.ctx, "select from "+f.table+" for update")
		ended <- err
	}()
	f.awaitBlocked(t, pidOf(holder))
	by, err := postgres.Blocked(f.ctx, testDSN(t), pidOf(waiter))
	if err != nil || len(by) != 1 || by[0] != pidOf(holder) {
		t.Fatal(by, err)
	}
	by, err = postgres.Blocked(f.ctx, testDSN(t), pidOf(holder))
	if err != nil || len(by) != 0 {
		t.Fatal(by, err)
	}
	must(t, holder.Rollback(f.ctx))
	must(t, <-ended)
}

func TestSettledWaitsForWhatStillExecutes(t *testing.T) {
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	admin, err := postgres.OpenAdmin(f.ctx, testDSN(t))
	must(t, err)
	defer admin.Close()
	must(t, admin.Settled(f.ctx, f.namespace))

	unsettled := func() {
		t.Helper()
		ended, cancel := context.WithTimeout(f.ctx, 5*settleLook)
		defer cancel()
		if err := admin.Settled(ended, f.namespace); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("settled: %v", err)
		}
	}
	must(t, f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(pgx.Tx) error { unsettled(); return nil }))
	must(t, admin.Settled(f.ctx, f.namespace))

	// A client that hung up while its statement waits: the server has not noticed.
	holder := f.inTx(t, "select from {table} for update")
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	s, proxy := f.behindRelay(t)
	go func() { ended <- s.Complete(ctx, "c", "m", at(0)) }()
	f.awaitBlocked(t, pidOf(holder))
	proxy.cut()
	cancel()
	if <-ended == nil {
		t.Fatal("no error")
	}
	unsettled()
	must(t, holder.Rollback(f.ctx))
	must(t, admin.Settled(f.ctx, f.namespace))
}

func TestDropEndsWhatACrashedWorkerLeftOpen(t *testing.T) {
	dsn, ctx := testDSN(t), testContext(t)
	f := newFixture(t)
	r := f.begin(t, "m", at(0), lease)
	err := f.CommitTx(f.ctx, f.claimOf("m", r, at(0)), func(pgx.Tx) error { return postgres.Drop(ctx, dsn, f.namespace) })
	if err == nil {
		t.Fatal("committed into a namespace that is gone")
	}
	must(t, postgres.Drop(ctx, dsn, f.namespace))
	for _, namespace := range []string{"", "pg_x", "é", strings.Repeat("n", 64), "a\x00"} {
		if postgres.Prepare(ctx, dsn, namespace) == nil {
			t.Errorf("namespace %q was accepted", namespace)
		}
	}
}

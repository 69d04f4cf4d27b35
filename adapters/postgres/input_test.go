package postgres_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func number(t testing.TB, token string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// unreachable is a store whose pool fails the test when it is used: refusals happen before any I/O.
func unreachable(t *testing.T) *postgres.Store {
	t.Helper()
	store, err := postgres.New(unreachablePool(t), postgres.Options{})
	must(t, err)
	return store
}

func unreachablePool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://u:p@127.0.0.1:1/x")
	must(t, err)
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		t.Error("refused input reached the network")
		return context.Canceled
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestBadInputIsRefusedBeforeAnyIO(t *testing.T) {
	s, ctx := unreachable(t), testContext(t)
	long := strings.Repeat("x", postgres.MaxKeyBytes+1)
	claim := model.Record{Token: "1"}
	far := time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := func(c, id string, now time.Time, lease time.Duration) error {
		_, _, err := s.Begin(ctx, c, id, now, lease)
		return err
	}
	extend := func(id string, now time.Time, lease time.Duration) error {
		_, err := s.Extend(ctx, "c", id, claim, now, lease)
		return err
	}
	for _, bad := range []badInput{
		{"consumer", begin("", "m", at(0), lease)},
		{"message id", begin("c", "", at(0), lease)},
		{"consumer", begin("c\x00", "m", at(0), lease)},
		{"message id", begin("c", "m\x00", at(0), lease)},
		{"message id", begin("c", "m\xff", at(0), lease)},
		{"message id", begin("c", "\xed\xa0\x80", at(0), lease)},
		{"consumer", begin(long, "m", at(0), lease)},
		{"message id", begin("c", long, at(0), lease)},
		{"now", begin("c", "m", time.Time{}, lease)},
		{"now", begin("c", "m", far, lease)},
		{"now", begin("c", "m", time.Date(-4713, 11, 23, 0, 0, 0, 0, time.UTC), lease)},
		{"lease", begin("c", "m", far.Add(-time.Second), time.Minute)},
		{"lease", begin("c", "m", at(0), 0)},
		{"lease", begin("c", "m", at(0), -time.Second)},
		{"lease", begin("c", "m", at(0), 999)},
		{"nonce", func() error { _, _, err := s.BeginAs(ctx, "c", "m", "", at(0), lease); return err }()},
		{"nonce", func() error { _, _, err := s.BeginAs(ctx, "c", "m", "\x00", at(0), lease); return err }()},
		{"consumer", s.Complete(ctx, "", "m", at(0))},
		{"now", s.Complete(ctx, "c", "m", time.Time{})},
		{"message id", s.CompleteClaim(ctx, "c", "", claim, at(0))},
		{"now", s.CompleteClaim(ctx, "c", "m", claim, time.Time{})},
		{"message id", s.CommitEffect(ctx, "c", "", claim, at(0), model.Effect{ID: "e"})},
		{"account", s.CommitEffect(ctx, "c", "m", claim, at(0), model.Effect{ID: "e", Account: "\x00"})},
		{"effect id", s.CommitEffect(ctx, "c", "m", claim, at(0), model.Effect{ID: "\xff"})},
		{"function", s.CommitTx(ctx, postgres.Claim{Consumer: "c", MessageID: "m", Record: claim, Now: at(0)}, nil)},
		{"before", func() error { _, err := s.Prune(ctx, far); return err }()},
		{"result", s.CompleteResult(ctx, "c", "m", claim, at(0), make([]byte, postgres.MaxResultBytes+1))},
		{"now", s.CompleteResult(ctx, "c", "m", claim, time.Time{}, nil)},
		{"consumer", s.Release(ctx, "", "m", claim, at(0), at(0), "")},
		{"now", s.Release(ctx, "c", "m", claim, time.Time{}, at(0), "")},
		{"visibleAt", s.Release(ctx, "c", "m", claim, at(0), far, "")},
		{"visibleAt", s.Release(ctx, "c", "m", claim, at(0), far.Add(-1), "")},
		{"visibleAt", s.Release(ctx, "c", "m", claim, at(0), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), "")},
		{"reason", s.Release(ctx, "c", "m", claim, at(0), at(0), "a\x00")},
		{"reason", s.Bury(ctx, "c", "m", claim, at(0), "\xff")},
		{"reason", s.Bury(ctx, "c", "m", claim, at(0), strings.Repeat("x", postgres.MaxReasonBytes+1))},
		{"message id", s.Bury(ctx, "c", "", claim, at(0), "")},
		{"message id", extend("", at(0), lease)},
		{"now", extend("m", time.Time{}, lease)},
		{"lease", extend("m", at(0), 0)},
		{"lease", extend("m", at(0), 999)},
		{"lease", extend("m", far.Add(-time.Second), time.Minute)},
		{"consumer", s.Replay(ctx, "", "m", at(0))},
		{"now", s.Replay(ctx, "c", "m", time.Time{})},
		{"consumer", func() error { _, _, err := s.Lookup(ctx, "", "m"); return err }()},
	} {
		bad.isNamed(t)
	}
}

type badInput struct {
	names string
	err   error
}

func (b badInput) isNamed(t *testing.T) {
	t.Helper()
	wantIs(t, b.err, model.ErrRefused)
	if !strings.Contains(b.err.Error(), b.names) || !strings.HasPrefix(b.err.Error(), "postgres: ") {
		t.Errorf("%q does not name %q", b.err, b.names)
	}
}

func TestContractStatesWhatTheStoreDoes(t *testing.T) {
	inbox := postgres.InboxContract()
	must(t, inbox.Validate())
	if !inbox.NoLease || !inbox.NoAttempts || inbox.NoTimes || inbox.Precision != time.Microsecond || inbox.Clock != model.CallerClock {
		t.Errorf("inbox contract %+v", inbox)
	}
	wantIs(t, inbox.AcceptsKey("", "m"), model.ErrRefused)
	c := postgres.Contract()
	must(t, c.Validate())
	if c.Precision != time.Microsecond || !c.OrderedToken || c.Clock != model.CallerClock {
		t.Errorf("contract %+v", c)
	}
	must(t, c.AcceptsKey("c", strings.Repeat("x", postgres.MaxKeyBytes)))
	wantIs(t, c.AcceptsKey("c", "\x00"), model.ErrRefused)
}

func TestTheLongestKeysFit(t *testing.T) {
	f := newFixture(t)
	// Random letters do not compress, so this is what the index has to hold at worst.
	source := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, postgres.MaxKeyBytes)
		for i := range b {
			b[i] = byte(' ' + source.IntN(95))
		}
		return string(b)
	}
	for range 20 {
		consumer, id := text(), text()
		if _, claimed, err := f.Begin(f.ctx, consumer, id, at(0), lease); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		must(t, f.Complete(f.ctx, consumer, id, at(0)))
	}
	f.prune(t, at(time.Second), 20)
}

func TestAnEndedContextIsHonoured(t *testing.T) {
	f := newFixture(t)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, _, err := f.Begin(ended, "c", "m", at(0), lease)
	wantIs(t, err, context.Canceled)
	wantIs(t, f.Complete(ended, "c", "m", at(0)), context.Canceled)
	_, err = f.Prune(ended, at(0))
	wantIs(t, err, context.Canceled)
	f.stands(t, "m", model.Record{})

	tx := f.inTx(t, `insert into {table} (consumer, message_id, state, attempts, updated_at) values ('c', 'm', 'DONE', 1, now())`)
	waiting, cancel := context.WithCancel(f.ctx)
	answers := make(chan answer, 1)
	go func() {
		_, claimed, err := f.Begin(waiting, "c", "m", at(0), lease)
		answers <- answer{claimed: claimed, err: err}
	}()
	f.awaitBlocked(t, pidOf(tx))
	cancel()
	if a := <-answers; a.err == nil || a.claimed || model.OutcomeOf(a.err) != model.Unknown {
		t.Fatalf("cut off in mid-call: %+v, outcome %v", a, model.OutcomeOf(a.err))
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for name, o := range map[string]postgres.Options{
		"Schema ":    {Schema: strings.Repeat("s", 64)},
		"Schema \"p": {Schema: "pg_x"},
		"Table":      {Table: strings.Repeat("t", 60)},
		"Ledger":     {Ledger: "a\x00b"},
		"Inbox":      {Inbox: strings.Repeat("i", 60)},
		"four":       {Table: "same", Ledger: "same"},
		"four n":     {Ledger: "x_inbox", Table: "x"},
		"PruneBatch": {PruneBatch: -1},
		"CommitIdle": {CommitIdle: time.Microsecond},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v does not name %q", o, err, name)
		}
	}
	must(t, postgres.Options{}.Validate())
}

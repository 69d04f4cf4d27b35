package broken_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/broken/siblings/serverclock"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// The liars behind the other doors: inboxes, whole consumers, and stores that live by a clock of their own. A door is
// how one is opened, in process or on a server.
type liarDoor struct {
	name     string
	open     func(testing.TB, broken.Flaw) scenarios.Harness
	onServer bool
	waits    bool // real time has to pass
	flaws    map[broken.Flaw][]model.InvariantID
	races    map[broken.Flaw][]model.InvariantID // by real concurrency alone, so that how often they fail again is chance
}

// broken.ExtendsShorter is not tried in real time: what shows it is a call between two ends that lie some tens of
// milliseconds apart. Not among them at all is broken.LeaseOfMinutes, a lease that is longer than the broker tries: a
// delivery has to come between its latest redelivery and the lease's end, which about half of the default runs bring
// about.
func liarDoors() []liarDoor {
	once, lost := []model.InvariantID{model.AtMostOneEffect}, []model.InvariantID{model.NoLostEffect}
	stuck := []model.InvariantID{model.TakeoverAfterExpiry}
	// A record that is gone from where it is looked for shows in whatever is done next.
	gone := []model.InvariantID{model.AtMostOneEffect, model.DoneStaysDone, model.RememberedInWindow, model.ForgottenAfterWindow}
	return []liarDoor{
		{
			name: "inbox", open: memoryInbox,
			flaws: map[broken.Flaw][]model.InvariantID{
				broken.MarkTakenBack:   gone,
				broken.PruneByLastSeen: {model.ForgottenAfterWindow, model.PruneOnlyOldDone},
				broken.MarksOnError:    lost,
				broken.AppliedOnError:  {model.NoLostEffect, model.TypedAnswers}, // a false DONE
				broken.PruneOneUnitOff: {model.RememberedInWindow, model.PruneOnlyOldDone},
				broken.PruneForgetsAll: {model.RememberedInWindow, model.ForgottenAfterWindow, model.PruneOnlyOldDone, model.DoneStaysDone},
				broken.KeysJoined:      {model.KeysIndependent},
			},
			races: map[broken.Flaw][]model.InvariantID{broken.SelectThenWrite: once},
		},
		{
			name: "consumer", open: memoryConsumer,
			flaws: map[broken.Flaw][]model.InvariantID{
				broken.AcksFirst:       lost,
				broken.EffectFirst:     once,
				broken.KeyOfTheTime:    gone,
				broken.KeyOfDelivery:   once,
				broken.HandleOnly:      gone,
				broken.BatchLooksFirst: once,
				broken.BatchOfOneKind:  {model.NoLostEffect, model.KeysIndependent},                             // another message decides
				broken.BatchByID:       {model.NoLostEffect, model.KeysIndependent, model.ForgottenAfterWindow}, // or what was forgotten seems to be done
				broken.StuckInFlight:   stuck,
				broken.ShortWindow:     {model.RememberedInWindow, model.AtMostOneEffect},
				broken.ErrorIsDone:     lost,
				broken.PruneAtArrival:  {model.RememberedInWindow, model.ForgottenAfterWindow},
				broken.KeysJoined:      {model.KeysIndependent, model.NoLostEffect}, // the one message is done, the other lost
			},
			races: map[broken.Flaw][]model.InvariantID{broken.SeenOnly: once},
		},
		{
			name: "clock", open: timedStore,
			flaws: map[broken.Flaw][]model.InvariantID{
				broken.SecondsForMillis: stuck,
				broken.OneTTL:           {model.TakeoverAfterExpiry, model.NoEarlySteal}, // a lease may be longer than the window
				broken.DeletesByKey:     {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
				broken.ExtendsForeign:   {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
				broken.CallersNow:       {model.NoEarlySteal, model.TakeoverAfterExpiry},
				// Of a lease as short as what the clocks differ by nobody can say whether it was over at the completion.
				broken.TTLKept:        {model.RememberedInWindow, model.DoneStaysDone, model.StaleClaimRefusedAfterForgetting},
				broken.ExtendsShorter: {model.NoEarlySteal},
			},
		},
		{
			name: "redis-ttl", open: redisTTL, onServer: true, waits: true,
			flaws: map[broken.Flaw][]model.InvariantID{
				broken.SecondsForMillis: stuck,
				broken.OneTTL:           stuck,
				broken.DeletesByKey:     {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
				broken.CallersNow:       {model.NoEarlySteal, model.TakeoverAfterExpiry},
				broken.TTLKept:          {model.RememberedInWindow, model.DoneStaysDone},
			},
		},
		{
			name: "redis-consumer", open: redisConsumer, onServer: true, waits: true,
			flaws: map[broken.Flaw][]model.InvariantID{broken.AcksFirst: lost, broken.EffectFirst: once, broken.DeletesByKey: once},
		},
		{
			name: "postgres-inbox", open: postgresLiarInbox, onServer: true,
			flaws: map[broken.Flaw][]model.InvariantID{broken.MarkFirst: lost, broken.EffectBefore: once, broken.MarkTakenBack: once},
			races: map[broken.Flaw][]model.InvariantID{broken.SelectThenWrite: once},
		},
		{
			name: "postgres-consumer", open: postgresLiarConsumer, onServer: true,
			flaws: map[broken.Flaw][]model.InvariantID{broken.MarkFirst: lost, broken.EffectBefore: once, broken.AllOnError: lost},
		},
	}
}

func memoryInbox(_ testing.TB, flaw broken.Flaw) scenarios.Harness {
	boxes := scenarios.PerNamespace(func() *broken.Inbox { return broken.NewInbox(flaw) })
	return scenarios.Harness{
		Name: "home-made inbox " + string(flaw), Contract: model.Contract{NoLease: true, NoAttempts: true}, Drop: boxes.Drop,
		OpenInbox: func(_ context.Context, env scenarios.Env) (model.Inbox, error) { return boxes.Get(env.Namespace), nil },
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return boxes.Get(namespace).Effects(), nil
		},
	}
}

func memoryConsumer(_ testing.TB, flaw broken.Flaw) scenarios.Harness {
	return consumers("home-made consumer "+string(flaw), model.Contract{}, func() *broken.Table { return broken.NewTable(flaw) },
		func(t *broken.Table, env scenarios.Env) scenarios.Consumer { return broken.NewConsumer(t, env.Now) })
}

func timedStore(_ testing.TB, flaw broken.Flaw) scenarios.Harness {
	hand := &serverclock.Hand{}
	stores := scenarios.PerNamespace(func() *broken.Timed { return broken.NewTimed(flaw, hand.Now) })
	return scenarios.Harness{
		Name: "home-made clock " + string(flaw), Contract: broken.TimedContract(), Advance: hand.Advance, Drop: stores.Drop,
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) { return stores.Get(env.Namespace), nil },
	}
}

func redisTTL(t testing.TB, flaw broken.Flaw) scenarios.Harness {
	s := redisServer.Need(t)
	return scenarios.Harness{
		Name: "home-made redis ttl " + string(flaw), Contract: broken.TimedContract(), Upstream: s.Addr, Advance: s.Advance,
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
			return broken.OpenTTL(s.DSN(), flaw, env.Namespace, env.Addr, model.DefaultWindow)
		},
		Drop: func(ctx context.Context, namespace string) error { return redis.Drop(ctx, s.DSN(), namespace) },
	}
}

// leaseOnRedis is short, so that it ends while a plan waits.
const leaseOnRedis = 200 * time.Millisecond

func redisConsumer(t testing.TB, flaw broken.Flaw) scenarios.Harness {
	h := redisTTL(t, flaw)
	s := redisServer.Need(t)
	h.Name, h.Open = "home-made redis consumer "+string(flaw), nil
	h.Contract.Redelivery = 3 * leaseOnRedis
	h.OpenConsumer = func(_ context.Context, env scenarios.Env) (scenarios.Consumer, error) {
		ttl, err := broken.OpenTTL(s.DSN(), flaw, env.Namespace, env.Addr, model.DefaultWindow)
		return &redisDeliverer{&broken.RedisConsumer{TTL: ttl, Lease: leaseOnRedis}}, err
	}
	h.Effects = func(ctx context.Context, namespace string) ([]model.Applied, error) {
		return broken.RedisLedger(ctx, s.DSN(), namespace)
	}
	return h
}

// redisDeliverer is a consumer that offers no Prune: the server forgets.
type redisDeliverer struct{ consumer *broken.RedisConsumer }

func (d *redisDeliverer) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	return d.consumer.Deliver(ctx, m)
}

func (d *redisDeliverer) Close() error { return d.consumer.Close() }

// postgresAdmin is a pool beside the workers' own.
func postgresAdmin(t testing.TB) *pgxpool.Pool {
	admin, err := pgxpool.New(t.Context(), postgresServer.Need(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return admin
}

func postgresLiarInbox(t testing.TB, flaw broken.Flaw) scenarios.Harness {
	s, admin := postgresServer.Need(t), postgresAdmin(t)
	return scenarios.Harness{
		Name: "home-made postgres inbox " + string(flaw), Contract: broken.PostgresInboxContract(), Upstream: s.Addr,
		OpenInbox: func(ctx context.Context, env scenarios.Env) (model.Inbox, error) {
			p, err := broken.OpenPostgres(ctx, s.DSN(), flaw, env.Namespace, env.Addr)
			return closingInbox{broken.PostgresInbox{Postgres: p}}, err
		},
		Prepare: func(ctx context.Context, namespace string) error {
			return broken.PreparePostgresInbox(ctx, admin, namespace)
		},
		Drop: func(ctx context.Context, namespace string) error { return broken.DropPostgres(ctx, admin, namespace) },
		Effects: func(ctx context.Context, namespace string) ([]model.Applied, error) {
			return broken.PostgresEffects(ctx, admin, namespace)
		},
	}
}

// closingInbox hides what an inbox inherits from the store that it is made of.
type closingInbox struct{ inbox broken.PostgresInbox }

func (c closingInbox) ApplyOnce(ctx context.Context, consumer, id string, now time.Time, e model.Effect) (bool, error) {
	return c.inbox.ApplyOnce(ctx, consumer, id, now, e)
}

func (c closingInbox) Prune(ctx context.Context, before time.Time) (int, error) {
	return c.inbox.Prune(ctx, before)
}

func (c closingInbox) Close() { c.inbox.Close() }

func postgresLiarConsumer(t testing.TB, flaw broken.Flaw) scenarios.Harness {
	h, s := postgresLiarInbox(t, flaw), postgresServer.Need(t)
	h.Name, h.OpenInbox, h.Contract = "home-made postgres consumer "+string(flaw), nil, broken.PostgresContract()
	h.OpenConsumer = func(ctx context.Context, env scenarios.Env) (scenarios.Consumer, error) {
		p, err := broken.OpenPostgres(ctx, s.DSN(), flaw, env.Namespace, env.Addr)
		return broken.PostgresConsumer{PostgresInbox: broken.PostgresInbox{Postgres: p}, Now: env.Now}, err
	}
	return h
}

// serverTimed is a right store on Postgres that lives by its server's clock.
func serverTimed(t testing.TB) scenarios.Harness {
	s, admin := postgresServer.Need(t), postgresAdmin(t)
	return scenarios.Harness{
		Name: "postgres by its own clock", Contract: broken.ServerTimedContract(), Upstream: s.Addr,
		Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			p, err := broken.OpenPostgres(ctx, s.DSN(), broken.None, env.Namespace, env.Addr)
			return broken.ServerTimed{Postgres: p}, err
		},
		Prepare: func(ctx context.Context, namespace string) error {
			return broken.PrepareServerTimed(ctx, admin, namespace)
		},
		Drop: func(ctx context.Context, namespace string) error { return broken.DropPostgres(ctx, admin, namespace) },
		Effects: func(ctx context.Context, namespace string) ([]model.Applied, error) {
			return broken.PostgresEffects(ctx, admin, namespace)
		},
	}
}

// byItsOwnClock has a right inbox or consumer date its marks by the server's clock, which here is the machine's.
func byItsOwnClock(t testing.TB, whole bool) scenarios.Harness {
	h, s := postgresLiarInbox(t, broken.None), postgresServer.Need(t)
	h.Name = "postgres inbox by its own clock"
	if whole {
		h.Name, h.OpenInbox = "postgres consumer by its own clock", nil
		h.OpenConsumer = func(ctx context.Context, env scenarios.Env) (scenarios.Consumer, error) {
			p, err := broken.OpenPostgres(ctx, s.DSN(), broken.None, env.Namespace, env.Addr)
			return broken.PostgresConsumer{PostgresInbox: broken.PostgresInbox{Postgres: p}, Now: time.Now}, err
		}
	} else {
		open := h.OpenInbox
		h.OpenInbox = func(ctx context.Context, env scenarios.Env) (model.Inbox, error) {
			inbox, err := open(ctx, env)
			return serverDated{inbox.(closingInbox)}, err
		}
	}
	h.Contract.Clock = model.ServerClock
	return h
}

// askingAgain has a right consumer deliver once more by itself after any error. What came of the first time it finds out
// by its mark, so that it may tell a duplicate of what it applied itself.
func askingAgain(t testing.TB) scenarios.Harness {
	h := postgresLiarConsumer(t, broken.None)
	open := h.OpenConsumer
	h.Name = "postgres consumer that asks again"
	h.OpenConsumer = func(ctx context.Context, env scenarios.Env) (scenarios.Consumer, error) {
		consumer, err := open(ctx, env)
		return again{consumer.(broken.PostgresConsumer)}, err
	}
	return h
}

type again struct{ broken.PostgresConsumer }

func (a again) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	told, err := a.PostgresConsumer.Deliver(ctx, m)
	if err != nil {
		told, err = a.PostgresConsumer.Deliver(ctx, m)
	}
	return told, err
}

type serverDated struct{ closingInbox }

func (s serverDated) ApplyOnce(ctx context.Context, consumer, id string, _ time.Time, e model.Effect) (bool, error) {
	return s.closingInbox.ApplyOnce(ctx, consumer, id, time.Now(), e)
}

func TestEveryLiarBehindADoorIsFoundForItsReason(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	for _, d := range liarDoors() {
		for flaw, reasons := range d.flaws {
			// On a server a run has few plans, and those by name are what breaks a call off at each of its requests.
			a := animal{name: d.name + "-" + string(flaw), onServer: d.onServer, reasons: reasons, byName: d.onServer}
			t.Run(a.name, func(t *testing.T) {
				if d.waits {
					t.Parallel() // it waits, and no more
				}
				plans, most, replays := 0, 0, []string{}
				for seed := range a.seeds() {
					h := d.open(t, flaw) // a new clock, too
					r := a.explore(t, h, scenarios.Seed(seed))
					caughtAtADoor(t, a, &h, r)
					plans, most = max(plans, r.Counts.Plans), max(most, steps(t, r.Plan))
					if !slices.Contains(replays, r.Replay) {
						replays = append(replays, r.Replay)
					}
				}
				t.Logf("%s: found on %d seeds, within %d plans at most, reduced to %d steps at most, again %s",
					a.name, a.seeds(), plans, most, strings.Join(replays, " | "))
			})
		}
	}
}

// caughtAtADoor is caught, except that where real time passes a plan need not fail every time: its rate is printed.
func caughtAtADoor(t *testing.T, a animal, h *scenarios.Harness, r checker.Report) {
	t.Helper()
	if h.Contract.Clock == model.ServerClock && h.Advance == nil && r.Verdict == checker.Violated {
		t.Logf("seed %d: %s, again %s", r.Seed, r.Reasons[0].Invariant, r.Replay)
		r.Replay = "5 of 5"
	}
	caught(t, a, r)
}

func TestRacesBehindADoorAreFoundByRealConcurrency(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	for _, d := range liarDoors() {
		for flaw, reasons := range d.races {
			t.Run(d.name+"-"+string(flaw), func(t *testing.T) {
				seeds := uint64(seedsOfRaces)
				if d.onServer {
					seeds = seedsOnServers
				}
				for seed := range max(seeds, uint64(*zooSeeds)) {
					r := explore(t, d.open(t, flaw), scenarios.Seed(seed), scenarios.Only(scenarios.Real))
					if r.Verdict != checker.Violated || !slices.Contains(reasons, r.Reasons[0].Invariant) {
						t.Errorf("seed %d: %s %s, %v\n%s", seed, r.Verdict, r.Limit, r.Reasons, r.Explain())
					}
					t.Logf("seed %d: %s within %d plans, again %s", seed, r.Scenario, r.Counts.Plans, r.Replay)
				}
			})
		}
	}
}

// The nearest right relative of each liar differs from it by one line, and is not accused.
func TestTheSiblingsOfTheLiarsBehindDoorsPass(t *testing.T) {
	for _, d := range liarDoors() {
		t.Run(d.name, func(t *testing.T) { scenarios.Test(t, d.open(t, broken.None), brief) })
	}
	t.Run("postgres-clock", func(t *testing.T) { scenarios.Test(t, serverTimed(t), brief) })
	t.Run("postgres-again", func(t *testing.T) { scenarios.Test(t, askingAgain(t), brief) })
	t.Run("postgres-inbox-clock", func(t *testing.T) { scenarios.Test(t, byItsOwnClock(t, false), brief) })
	t.Run("postgres-consumer-clock", func(t *testing.T) { scenarios.Test(t, byItsOwnClock(t, true), brief) })
}

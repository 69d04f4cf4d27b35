package broken_test

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
	_ "time/tzdata" // one liar lives in a city, whatever the machine knows of it

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// animal is one broken store of the zoo, and the reasons that are right for it.
type animal struct {
	name     string
	liar     func(testing.TB) scenarios.Harness
	onServer bool
	reasons  []model.InvariantID // empty: whatever it is found for
	byName   bool                // the plans that every run begins with find it: few drawn ones would, in a run's time
}

// stepsAtMost is what a reduced plan may have: more is no small counterexample.
const stepsAtMost = 10

func zoo() []animal {
	var all []animal
	for flaw, reasons := range map[broken.Flaw][]model.InvariantID{
		broken.DoneForgotten:       {model.DoneStaysDone},
		broken.PruneTakesClaims:    {model.PruneOnlyOldDone},
		broken.PruneByClaimTime:    {model.RememberedInWindow, model.ForgottenAfterWindow},
		broken.NeverPruned:         {model.ForgottenAfterWindow},
		broken.LeaseOfTheWindow:    {model.TakeoverAfterExpiry},
		broken.LeaseOfAMillisecond: {model.NoEarlySteal},
		broken.TakeoverTooLate:     {model.TakeoverAfterExpiry},
		broken.TakeoverTooEarly:    {model.NoEarlySteal},
		broken.AttemptsNotCounted:  {model.AttemptsCountClaims},
		broken.DoneTakenOver:       {model.DoneStaysDone},
		broken.LateOwnerAccepted:   {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.FencedByAttempts:    {model.StaleClaimRefusedAfterForgetting, model.StaleClaimRefused},
		broken.KeysJoined:          {model.KeysIndependent},
		broken.KeysFolded:          {model.KeysIndependent},
		broken.KeysCut:             {model.KeysIndependent},
		broken.ClaimsAlways:        {model.ExclusiveClaim, model.DoneStaysDone},
		broken.EffectTwice:         {model.AtMostOneEffect},
		broken.WallTime:            {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.MachineClock:        {model.TakeoverAfterExpiry},
		broken.PruneAtTheCutOff:    {model.PruneOnlyOldDone},
		broken.PruneTakesTheDead:   {model.PruneOnlyOldDone},
		broken.ReleasesByKey:       {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ExtendsByKey:        {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ReplayKeepsClaims:   {model.StaleClaimRefused},
		broken.RebeginsByName:      {model.ExclusiveClaim},
		broken.RebeginsCount:       {model.AttemptsCountClaims},
		broken.ReplayStartsAgain:   {model.AttemptsCountClaims},
		broken.ExtendOnlyNoted:     {model.NoEarlySteal},
		broken.ChangedRows:         {model.TypedAnswers},
		broken.ExtendReopens:       {model.DoneStaysDone},
		broken.NoResultNoDone:      {model.DoneStaysDone},
		// The count is all that shows: it says that something was removed beside what was old and DONE.
		broken.PruneCountsAll:     {model.PruneOnlyOldDone},
		broken.MarkOutlivesRecord: {model.ForgottenAfterWindow},
		broken.DoneFromCache:      {model.ForgottenAfterWindow},
		// The end lies on either side of the right one: by the clock, by visibleAt, by the time of the year.
		broken.ExtendsFromClaim: {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.ReleaseOnlyNoted: {model.TakeoverAfterExpiry, model.NoEarlySteal},
		broken.LeaseByTheWall:   {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.BuriedTakenOver:  {model.DoneStaysDone},
		broken.ResultIsText:     {model.DoneStaysDone},
		broken.ResultCut:        {model.DoneStaysDone},
		broken.ResultNotKept:    {model.DoneStaysDone},
		// What is read may be too old in any way: a claim that is DONE, or was taken over, or is forgotten.
		broken.ReadsFromCache: {model.TypedAnswers, model.ForgottenAfterWindow, model.AttemptsCountClaims},
	} {
		all = append(all, animal{name: string(flaw), liar: inProcess(flaw), reasons: reasons})
	}
	all = append(all, animal{
		name: "host-local", liar: func(testing.TB) scenarios.Harness { return hostLocal() },
		// What is asked first of another host decides: who holds it, whether it is DONE, what is known of it.
		reasons: []model.InvariantID{model.ExclusiveClaim, model.DoneStaysDone, model.TypedAnswers},
	})
	all = append(all, onServers()...)
	slices.SortFunc(all, func(a, b animal) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all
}

// onServers are the animals that live on a real server.
func onServers() []animal {
	var all []animal
	for flaw, reasons := range map[broken.Flaw][]model.InvariantID{
		broken.CompletesByKey:   {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.TransactionAgain: {model.AtMostOneEffect},
		broken.EffectOutside:    {model.AtMostOneEffect},
		broken.PrunesYoungOnes:  {model.RememberedInWindow, model.ForgottenAfterWindow},
		broken.RefusesItsOwner:  {model.TypedAnswers},
		broken.ZoneOfTheSession: {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.ColumnOfSeconds: { // leases and completions are rounded, up or down
			model.NoEarlySteal, model.TakeoverAfterExpiry, model.ForgottenAfterWindow, model.RememberedInWindow, model.PruneOnlyOldDone,
		},
		broken.ColumnFolds:    {model.KeysIndependent},
		broken.ColumnPads:     {model.KeysIndependent},
		broken.PrunesAnyState: {model.PruneOnlyOldDone},
		// A call that failed is told as done: the effect is lost, or a stale claim was accepted.
		broken.ErrorSwallowed: {model.NoLostEffect, model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ExtendsByKey:   {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
	} {
		all = append(all, animal{name: "postgres-" + string(flaw), liar: onPostgres(flaw), onServer: true, reasons: reasons})
	}
	for flaw, reasons := range map[broken.Flaw][]model.InvariantID{
		broken.DriverRetries: {model.TypedAnswers},
		broken.LockDeletes:   {model.DoneStaysDone},
		broken.PruneByScore:  {model.RememberedInWindow, model.ForgottenAfterWindow},
		broken.TokenRestarts: {model.StaleClaimRefusedAfterForgetting, model.StaleClaimRefused},
		broken.WholeSeconds:  {model.NoEarlySteal},
		broken.OneCell:       {model.TypedAnswers},
		broken.SetThenExpire: {model.TakeoverAfterExpiry},
		broken.TokenOfHandle: {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ReleasesByKey: {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
	} {
		all = append(all, animal{name: "redis-" + string(flaw), liar: onRedis(flaw), onServer: true, reasons: reasons})
	}
	return append(all, animal{
		name: "redis-" + string(broken.KeysJoined), liar: onRedis(broken.KeysJoined), onServer: true,
		reasons: []model.InvariantID{model.KeysIndependent}, byName: true,
	})
}

func onPostgres(flaw broken.Flaw) func(testing.TB) scenarios.Harness {
	return func(t testing.TB) scenarios.Harness {
		s := postgresServer.Need(t)
		admin, err := pgxpool.New(t.Context(), s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(admin.Close)
		return scenarios.Harness{
			Name: string("home-made postgres " + flaw), Contract: broken.PostgresContract(), Upstream: s.Addr,
			Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
				return broken.OpenPostgres(ctx, s.DSN(), flaw, env.Namespace, env.Addr)
			},
			Prepare: func(ctx context.Context, namespace string) error {
				return broken.PreparePostgres(ctx, admin, flaw, namespace)
			},
			Drop: func(ctx context.Context, namespace string) error {
				return broken.DropPostgres(ctx, admin, namespace)
			},
			Effects: func(ctx context.Context, namespace string) ([]model.Applied, error) {
				return broken.PostgresEffects(ctx, admin, namespace)
			},
		}
	}
}

func onRedis(flaw broken.Flaw) func(testing.TB) scenarios.Harness {
	return func(t testing.TB) scenarios.Harness {
		s := redisServer.Need(t)
		return scenarios.Harness{
			Name: string("home-made redis " + flaw), Contract: broken.RedisContract(), Upstream: s.Addr,
			Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
				return broken.OpenRedis(s.DSN(), flaw, env.Namespace, env.Addr)
			},
			Drop: func(ctx context.Context, namespace string) error { return redis.Drop(ctx, s.DSN(), namespace) },
		}
	}
}

func inProcess(flaw broken.Flaw) func(testing.TB) scenarios.Harness {
	return func(testing.TB) scenarios.Harness { return brokenMemory(flaw) }
}

func brokenMemory(flaw broken.Flaw) scenarios.Harness {
	stores := scenarios.PerNamespace(func() *broken.Memory { return broken.NewMemory(flaw) })
	return scenarios.Harness{
		Name: string("home-made " + flaw),
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) { return stores.Get(env.Namespace), nil },
		Drop: stores.Drop,
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return stores.Get(namespace).Effects(), nil
		},
	}
}

// hostLocal is a store that falls back to the memory of its own process, without a word: each handle is right, and
// knows nothing of the others.
func hostLocal() scenarios.Harness {
	var mu sync.Mutex
	hosts := map[string][]*broken.Memory{} // by namespace
	return scenarios.Harness{
		Name: "home-made host-local",
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
			mu.Lock()
			defer mu.Unlock()
			m := broken.NewMemory(broken.None)
			hosts[env.Namespace] = append(hosts[env.Namespace], m)
			return m, nil
		},
		Effects: func(_ context.Context, namespace string) (all []model.Applied, _ error) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range hosts[namespace] {
				all = append(all, m.Effects()...)
			}
			return all, nil
		},
	}
}

// Each liar is tried on this many seeds. Those on a server take seconds each, and the default run is short.
const (
	seedsInProcess = 20
	seedsOnServers = 1
	seedsOfRaces   = 5

	plansInSteps = 150 // of which a fifth is run with real concurrency: what is asked of a store that claims in two steps
)

var zooSeeds = flag.Int("zoo.seeds", 0, "try each liar on this many seeds; 0: a few on servers, 20 in process")

func (a animal) seeds() uint64 {
	switch {
	case *zooSeeds > 0:
		return uint64(*zooSeeds)
	case a.onServer:
		return seedsOnServers
	}
	return seedsInProcess
}

func (a animal) racingSeeds() uint64 {
	if *zooSeeds == 0 && !a.onServer {
		return seedsOfRaces
	}
	return a.seeds()
}

func TestEveryLiarIsFoundForItsReason(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	for _, a := range zoo() {
		t.Run(a.name, func(t *testing.T) {
			h := a.liar(t)
			plans, most := 0, 0
			for seed := range a.seeds() {
				r := a.explore(t, h, scenarios.Seed(seed))
				caught(t, a, r)
				plans = max(plans, r.Counts.Plans)
				most = max(most, steps(t, r.Plan))
			}
			t.Logf("%s: found on %d seeds, within %d plans at most, reduced to %d steps at most", a.name, a.seeds(), plans, most)
		})
	}
}

// The nearest right relative of each liar differs from it by one line, and is not accused.
func TestTheSiblingsOfTheLiarsPass(t *testing.T) {
	for name, sibling := range map[string]func(testing.TB) scenarios.Harness{
		"memory":   inProcess(broken.None),
		"redis":    onRedis(broken.None),
		"postgres": onPostgres(broken.None),
	} {
		t.Run(name, func(t *testing.T) { scenarios.Test(t, sibling(t)) })
	}
	for name, sibling := range map[string]func(testing.TB) scenarios.Harness{
		"redis in two steps":    onRedis(broken.TwoSteps),
		"postgres in two steps": onPostgres(broken.TwoSteps),
	} {
		t.Run(name, func(t *testing.T) {
			scenarios.Test(t, sibling(t), scenarios.Only(scenarios.Real), scenarios.Plans(plansInSteps))
		})
	}
}

// explore draws the plans that are to find something: those by name are left out, since the generator is on trial.
func explore(t *testing.T, h scenarios.Harness, opts ...scenarios.Option) checker.Report {
	t.Helper()
	return animal{}.explore(t, h, opts...)
}

func (a animal) explore(t *testing.T, h scenarios.Harness, opts ...scenarios.Option) checker.Report {
	t.Helper()
	if !a.byName {
		opts = append(opts, scenarios.Without(scenarios.ByName))
	}
	r, err := scenarios.Explore(t.Context(), h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Races are bugs that one operation at a time cannot show. They are found, for a reason that they have: a store that
// writes back what it read earlier overwrites a claim, a DONE and a prune alike, so that a forgotten DONE is back (a
// false DONE), and which of these comes first is for the scheduler to say, as is how often they fail when run again.
func TestRacesAreFoundByRealConcurrency(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	anyOf := []model.InvariantID{
		model.ExclusiveClaim, model.NoEarlySteal, model.DoneStaysDone, model.StaleClaimRefused,
		model.AttemptsCountClaims, model.ForgottenAfterWindow, model.TypedAnswers,
		model.PruneOnlyOldDone, // a prune ran beside the claims, and what it counted leaves both open
	}
	for _, a := range []animal{
		{name: string(broken.ChecksThenActs), liar: inProcess(broken.ChecksThenActs), reasons: anyOf},
		{name: string(broken.ChecksThenLocks), liar: inProcess(broken.ChecksThenLocks), reasons: anyOf, byName: true},
		{name: string(broken.TakesOverBlindly), liar: inProcess(broken.TakesOverBlindly), reasons: anyOf},
		{name: "postgres-" + string(broken.UpdatesBlindly), liar: onPostgres(broken.UpdatesBlindly), onServer: true, reasons: anyOf},
		{name: "postgres-" + string(broken.InsertsOrFails), liar: onPostgres(broken.InsertsOrFails), onServer: true, reasons: []model.InvariantID{model.TypedAnswers}},
		{name: "postgres-" + string(broken.InsertsBlindly), liar: onPostgres(broken.InsertsBlindly), onServer: true, reasons: anyOf},
		{name: "redis-" + string(broken.GetThenSet), liar: onRedis(broken.GetThenSet), onServer: true, reasons: anyOf},
	} {
		t.Run(a.name, func(t *testing.T) {
			h := a.liar(t)
			for seed := range a.racingSeeds() {
				tiers := []scenarios.Tier{scenarios.Real}
				if a.byName {
					tiers = append(tiers, scenarios.ByName)
				}
				r := a.explore(t, h, scenarios.Seed(seed), scenarios.Only(tiers...))
				if r.Verdict != checker.Violated || !a.right(r) {
					t.Errorf("seed %d: %s %s, %v\n%s", seed, r.Verdict, r.Limit, r.Reasons, r.Explain())
					continue
				}
				t.Logf("seed %d: %s, %s within %d plans, again %s", seed, r.Reasons[0].Invariant, r.Scenario, r.Counts.Plans, r.Replay)
			}
		})
	}
}

// right says whether the reason is one of the liar's.
func (a animal) right(r checker.Report) bool {
	return len(a.reasons) == 0 || slices.Contains(a.reasons, r.Reasons[0].Invariant)
}

// caught: found, for a right reason, small, and again when the plan's text is run.
func caught(t *testing.T, a animal, r checker.Report) {
	t.Helper()
	if r.Verdict != checker.Violated {
		t.Fatalf("seed %d: verdict %s (%s), want violated", r.Seed, r.Verdict, r.Limit)
	}
	if !a.right(r) {
		t.Errorf("seed %d: reason %s, want one of %v\n%s%s", r.Seed, r.Reasons[0].Invariant, a.reasons, r.Explain(), r.Plan)
	}
	if n := steps(t, r.Plan); n > stepsAtMost {
		t.Errorf("seed %d: reduced to %d steps, want at most %d\n%s", r.Seed, n, stepsAtMost, r.Plan)
	}
	if want := strconv.Itoa(5) + " of 5"; r.Replay != want {
		t.Errorf("seed %d: the reduced plan failed %s times, want %s\n%s", r.Seed, r.Replay, want, r.Plan)
	}
}

func steps(t *testing.T, plan string) int {
	t.Helper()
	p, err := scenarios.ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	return len(p.Steps)
}

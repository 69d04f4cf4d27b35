package scenarios_test

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"testing"
	_ "time/tzdata" // one liar lives in a city, whatever the machine knows of it

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
	reasons  []model.InvariantID
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
		broken.LeaseByTheWall:      {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.PruneAtTheCutOff:    {model.PruneOnlyOldDone},
		broken.PruneTakesTheDead:   {model.PruneOnlyOldDone},
		broken.PruneCountsAll:      {model.PruneOnlyOldDone},
		broken.MarkOutlivesRecord:  {model.TypedAnswers},
		broken.DoneFromCache:       {model.TypedAnswers},
		broken.ReleasesByKey:       {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ReleaseOnlyNoted:    {model.TakeoverAfterExpiry, model.NoEarlySteal},
		broken.ExtendsByKey:        {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ExtendOnlyNoted:     {model.NoEarlySteal},
		broken.ExtendsFromClaim:    {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.ExtendReopens:       {model.DoneStaysDone},
		broken.RebeginsByName:      {model.ExclusiveClaim},
		broken.RebeginsCount:       {model.AttemptsCountClaims},
		broken.BuriedTakenOver:     {model.DoneStaysDone},
		broken.ReplayKeepsClaims:   {model.StaleClaimRefused},
		broken.ReplayStartsAgain:   {model.AttemptsCountClaims},
		broken.ResultIsText:        {model.DoneStaysDone},
		broken.ResultCut:           {model.DoneStaysDone},
		broken.ResultNotKept:       {model.DoneStaysDone},
		broken.NoResultNoDone:      {model.DoneStaysDone},
	} {
		all = append(all, animal{
			name: string(flaw), reasons: reasons,
			liar: func(testing.TB) scenarios.Harness { return brokenMemory(flaw) },
		})
	}
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
		broken.ColumnOfSeconds:  {model.NoEarlySteal, model.TakeoverAfterExpiry},
		broken.ColumnFolds:      {model.KeysIndependent},
		broken.ColumnPads:       {model.KeysIndependent},
		broken.PrunesAnyState:   {model.PruneOnlyOldDone},
		broken.ErrorSwallowed:   {model.NoLostEffect},
		broken.ExtendsByKey:     {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ChangedRows:      {model.TypedAnswers},
	} {
		all = append(all, animal{"postgres-" + string(flaw), onPostgres(flaw), true, reasons})
	}
	for flaw, reasons := range map[broken.Flaw][]model.InvariantID{
		broken.DriverRetries: {model.TypedAnswers},
		broken.LockDeletes:   {model.DoneStaysDone},
		broken.PruneByScore:  {model.RememberedInWindow, model.ForgottenAfterWindow},
		broken.TokenRestarts: {model.StaleClaimRefusedAfterForgetting, model.StaleClaimRefused},
		broken.KeysJoined:    {model.KeysIndependent},
		broken.WholeSeconds:  {model.NoEarlySteal},
		broken.OneCell:       {model.TypedAnswers},
		broken.SetThenExpire: {model.TakeoverAfterExpiry},
		broken.TokenOfHandle: {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
		broken.ReleasesByKey: {model.StaleClaimRefused, model.StaleClaimRefusedAfterForgetting},
	} {
		all = append(all, animal{"redis-" + string(flaw), onRedis(flaw), true, reasons})
	}
	return all
}

func onPostgres(flaw broken.Flaw) func(testing.TB) scenarios.Harness {
	return func(t testing.TB) scenarios.Harness {
		s := postgresServer.Need(t)
		return scenarios.Harness{
			Name: string("home-made postgres " + flaw), Contract: broken.PostgresContract(), Upstream: s.Addr,
			Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
				return broken.OpenPostgres(ctx, s.DSN(), flaw, env.Namespace, env.Addr)
			},
			Prepare: func(ctx context.Context, namespace string) error {
				return broken.PreparePostgres(ctx, s.DSN(), flaw, namespace)
			},
			Drop: func(ctx context.Context, namespace string) error {
				return broken.DropPostgres(ctx, s.DSN(), namespace)
			},
			Effects: func(ctx context.Context, namespace string) ([]model.Applied, error) {
				return broken.PostgresEffects(ctx, s.DSN(), namespace)
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

func brokenMemory(flaw broken.Flaw) scenarios.Harness {
	stores := perNamespace[*broken.Memory]{open: func() *broken.Memory { return broken.NewMemory(flaw) }}
	return scenarios.Harness{
		Name: string("home-made " + flaw),
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) { return stores.get(env.Namespace), nil },
		Drop: stores.drop,
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return stores.get(namespace).Effects(), nil
		},
	}
}

// Each liar is tried on this many seeds. Those on a server take seconds each, and the default run is short.
const (
	seedsInProcess = 20
	seedsOnServers = 1
	seedsOfRaces   = 5
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

func TestEveryLiarIsFoundForItsReason(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	for _, a := range zoo() {
		t.Run(a.name, func(t *testing.T) {
			h := a.liar(t)
			plans, most := 0, 0
			for seed := range a.seeds() {
				r := explore(t, h, scenarios.Seed(seed))
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
		"memory":   func(testing.TB) scenarios.Harness { return brokenMemory(broken.None) },
		"redis":    onRedis(broken.None),
		"postgres": onPostgres(broken.None),

		"redis in two steps":    onRedis(broken.TwoSteps),
		"postgres in two steps": onPostgres(broken.TwoSteps),
	} {
		t.Run(name, func(t *testing.T) { scenarios.Test(t, sibling(t)) })
	}
}

func explore(t *testing.T, h scenarios.Harness, opts ...scenarios.Option) checker.Report {
	t.Helper()
	r, err := scenarios.Explore(t.Context(), h, append(opts, scenarios.WithoutNamed())...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// races are bugs that one operation at a time cannot show. They are found, for a reason that they have: a store that
// writes back what it read earlier overwrites a claim, a DONE and a prune alike, so that a forgotten DONE is back (a
// false DONE), and which of these comes first is for the scheduler to say, as is how often they fail when run again.
func TestRacesAreFoundByRealConcurrency(t *testing.T) {
	t.Setenv("EFFECTONCE_SEED", "") // the seeds are this test's own
	reasons := []model.InvariantID{
		model.ExclusiveClaim, model.NoEarlySteal, model.DoneStaysDone, model.StaleClaimRefused,
		model.AttemptsCountClaims, model.ForgottenAfterWindow, model.TypedAnswers,
	}
	for _, flaw := range []broken.Flaw{broken.ChecksThenActs, broken.TakesOverBlindly} {
		t.Run(string(flaw), func(t *testing.T) {
			for seed := range uint64(seedsOfRaces) {
				r := explore(t, brokenMemory(flaw), scenarios.Seed(seed), scenarios.Only(scenarios.Real))
				if r.Verdict != checker.Violated || !slices.Contains(reasons, r.Reasons[0].Invariant) {
					t.Errorf("seed %d: %s %s, %v\n%s", seed, r.Verdict, r.Limit, r.Reasons, r.Explain())
				}
				t.Logf("seed %d: %s within %d plans, again %s", seed, r.Scenario, r.Counts.Plans, r.Replay)
			}
		})
	}
}

// caught: found, for a right reason, small, and again when the plan's text is run.
func caught(t *testing.T, a animal, r checker.Report) {
	t.Helper()
	if r.Verdict != checker.Violated {
		t.Fatalf("seed %d: verdict %s (%s), want violated", r.Seed, r.Verdict, r.Limit)
	}
	if !slices.Contains(a.reasons, r.Reasons[0].Invariant) {
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

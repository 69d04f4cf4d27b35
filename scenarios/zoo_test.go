package scenarios_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// animal is one broken store of the zoo, the reasons that are right for it, and its nearest right relative.
type animal struct {
	name    string
	liar    func(testing.TB) scenarios.Harness
	sibling func(testing.TB) scenarios.Harness
	reasons []model.InvariantID
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
	} {
		all = append(all, animal{
			name: string(flaw), reasons: reasons,
			liar:    func(testing.TB) scenarios.Harness { return brokenMemory(flaw) },
			sibling: func(testing.TB) scenarios.Harness { return brokenMemory(broken.None) },
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
	} {
		all = append(all, animal{"postgres-" + string(flaw), onPostgres(flaw), onPostgres(broken.None), reasons})
	}
	for flaw, reasons := range map[broken.Flaw][]model.InvariantID{
		broken.DriverRetries: {model.TypedAnswers},
		broken.LockDeletes:   {model.DoneStaysDone},
		broken.PruneByScore:  {model.RememberedInWindow, model.ForgottenAfterWindow},
		broken.TokenRestarts: {model.StaleClaimRefusedAfterForgetting, model.StaleClaimRefused},
	} {
		all = append(all, animal{"redis-" + string(flaw), onRedis(flaw), onRedis(broken.None), reasons})
	}
	return all
}

func onPostgres(flaw broken.Flaw) func(testing.TB) scenarios.Harness {
	return func(t testing.TB) scenarios.Harness {
		s := server(t, backend.NamePostgres, backend.Postgres)
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
		s := server(t, backend.NameRedis, backend.Redis)
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

// seeds is how many seeds each liar must be found on.
const seeds = 20

func TestEveryLiarIsFoundForItsReason(t *testing.T) {
	for _, a := range zoo() {
		t.Run(a.name, func(t *testing.T) {
			h := a.liar(t)
			plans, most := 0, 0
			for seed := range uint64(seeds) {
				r := explore(t, h, scenarios.Seed(seed))
				caught(t, a, r)
				plans = max(plans, r.Counts.Plans)
				most = max(most, steps(t, r.Plan))
			}
			t.Logf("%s: found on %d of %d seeds, within %d plans at most, reduced to %d steps at most", a.name, seeds, seeds, plans, most)
		})
	}
}

func explore(t *testing.T, h scenarios.Harness, opts ...scenarios.Option) checker.Report {
	t.Helper()
	r, err := scenarios.Explore(t.Context(), h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
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

package scenarios_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// Every run begins with the plans by name, so that one drawn plan is enough to find what they are made for.
func TestThePlansByNameFindWhatTheyAreMadeFor(t *testing.T) {
	limited := scenarios.PerNamespace(func() *broken.Memory {
		m := broken.NewMemory(broken.None)
		m.PruneLimit = 100
		return m
	})
	for name, c := range map[string]struct {
		h      scenarios.Harness
		reason model.InvariantID
	}{
		"cut at 100 records": {scenarios.Harness{Name: "limited", Drop: limited.Drop,
			Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
				return struct{ model.Store }{limited.Get(env.Namespace)}, nil
			}}, model.ForgottenAfterWindow},
		"joined keys":     {brokenMemory(broken.KeysJoined), model.KeysIndependent},
		"folded keys":     {brokenMemory(broken.KeysFolded), model.KeysIndependent},
		"DONE taken over": {brokenMemory(broken.DoneTakenOver), model.DoneStaysDone},
		"attempts":        {brokenMemory(broken.AttemptsNotCounted), model.AttemptsCountClaims},
		"too late":        {brokenMemory(broken.TakeoverTooLate), model.TakeoverAfterExpiry},
		"too early":       {brokenMemory(broken.TakeoverTooEarly), model.NoEarlySteal},
		"from the claim":  {brokenMemory(broken.PruneByClaimTime), model.RememberedInWindow},
	} {
		t.Run(name, func(t *testing.T) {
			// That it is found is the question: a plan of some hundred keys takes longer to reduce than this.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			r, err := scenarios.Explore(ctx, c.h, scenarios.Only(scenarios.ByName), scenarios.Seed(1))
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != checker.Violated || r.Reasons[0].Invariant != c.reason {
				t.Errorf("%s, %v, want %s\n%s", r.Verdict, r.Reasons, c.reason, r.Explain())
			}
		})
	}
}

func TestAPassNamesThePlansThatEveryRunBeginsWith(t *testing.T) {
	r, err := scenarios.Explore(t.Context(), memoryHarness(), scenarios.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a duplicate delivery is handled once", "six consumers at once handle a message once",
		"a handler that fails twice is tried a third time", "a crash holds the message until its lease ends", "prune defines the window",
	} {
		if !slices.Contains(r.Named, want) {
			t.Errorf("%q is missing in %q", want, r.Named)
		}
	}
}

// On a server that is slow the plans by name, too, end with the budget; and what did not run is not told as run.
func TestThePlansByNameKeepToTheBudget(t *testing.T) {
	r := explore(t, memoryHarness(), scenarios.Budget(time.Nanosecond), scenarios.Only(scenarios.ByName))
	if r.Verdict != checker.Inconclusive || len(r.Named) != 0 || r.Counts.Plans != 0 {
		t.Errorf("%s, by name %q, %d plans; want inconclusive, and nothing", r.Verdict, r.Named, r.Counts.Plans)
	}
}

package scenarios_test

import (
	"context"
	"testing"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// brokenMemory is a home-made store with one flaw, for the tests of what a run does about it. That the flaws are found
// is tested beside them.
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

func explore(t *testing.T, h scenarios.Harness, opts ...scenarios.Option) checker.Report {
	t.Helper()
	r, err := scenarios.Explore(t.Context(), h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

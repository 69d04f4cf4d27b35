package broken_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/broken/siblings/holding"
	"github.com/effectonce/effectonce/adapters/broken/siblings/plain"
	"github.com/effectonce/effectonce/adapters/broken/siblings/strict"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// The right stores of the zoo were written from the contract's text alone, each without sight of the model or of
// one another, with a record type of its own. An alarm on one of them is a defect of the kit.
func TestIndependentRightStoresPass(t *testing.T) {
	for name, h := range independent() {
		t.Run(name, func(t *testing.T) { scenarios.Test(t, h) })
	}
}

func independent() map[string]scenarios.Harness {
	tables := scenarios.PerNamespace(holding.NewTable)
	return map[string]scenarios.Harness{
		"plain": {
			Name: "plain",
			Open: scenarios.Shared(func() model.Store {
				return adapters.From(plain.NewPlain(), func(r plain.Record) model.Record {
					return model.Record{State: model.State(r.State), Attempts: r.Attempts, LeaseUntil: r.LeaseUntil, UpdatedAt: r.UpdatedAt}
				})
			}),
		},
		"holding": {
			Name: "holding",
			Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
				return adapters.From(tables.Get(env.Namespace).Open(), func(r holding.Record) model.Record {
					return model.Record{State: model.State(r.State), Attempts: r.Attempts, LeaseUntil: r.LeaseUntil, UpdatedAt: r.UpdatedAt}
				}), nil
			},
			Drop: tables.Drop,
		},
		"strict": {
			Name: "strict",
			Open: scenarios.Shared(func() model.Store {
				return adapters.From(strict.NewStrict(), func(r strict.Record) model.Record {
					return model.Record{State: model.State(r.State), Attempts: r.Attempts, LeaseUntil: r.LeaseUntil, UpdatedAt: r.UpdatedAt}
				})
			}),
		},
	}
}

// silencePlans turns the following test into a campaign: so many plans on each right store in process, and a
// fortieth of it on each with a server.
var silencePlans = flag.Int("silence.plans", 0, "run so many plans on each right store and expect no alarm; 0: skip")

const (
	silenceOnServers = 40
	silenceBudget    = 2 * time.Hour
)

func TestSilence(t *testing.T) {
	if *silencePlans == 0 {
		t.Skip("a campaign: set -silence.plans, such as -silence.plans=200000")
	}
	quiet := func(name string, plans int, open func(t *testing.T) scenarios.Harness) {
		t.Run(name, func(t *testing.T) {
			scenarios.Test(t, open(t), scenarios.Plans(plans), scenarios.Budget(silenceBudget))
		})
	}
	quiet("home-made", *silencePlans, func(*testing.T) scenarios.Harness { return brokenMemory(broken.None) })
	for name, h := range independent() {
		quiet(name, *silencePlans, func(*testing.T) scenarios.Harness { return h })
	}
	few := *silencePlans / silenceOnServers
	quiet("home-made redis", few, func(t *testing.T) scenarios.Harness { return onRedis(broken.None)(t) })
	quiet("home-made postgres", few, func(t *testing.T) scenarios.Harness { return onPostgres(broken.None)(t) })
}

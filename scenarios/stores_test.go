package scenarios_test

import (
	"context"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// short and brief are budgets: this run is for people who wait. A campaign sets EFFECTONCE_BUDGET and EFFECTONCE_PLANS.
var (
	short = scenarios.Budget(4 * time.Second)
	brief = scenarios.Budget(2 * time.Second)
)

func TestMemory(t *testing.T) { scenarios.Test(t, memoryHarness()) }

func TestRedis(t *testing.T) { scenarios.Test(t, redisHarness(t), short) }

func TestPostgres(t *testing.T) { scenarios.Test(t, postgresHarness(t), short) }

func memoryHarness() scenarios.Harness {
	spaces := scenarios.PerNamespace(func() *memory.Space { return memory.New(memory.Options{}) })
	return scenarios.Harness{
		Name: "memory", Contract: memory.Contract(),
		Open: func(_ context.Context, env scenarios.Env) (model.Store, error) {
			return spaces.Get(env.Namespace).Open(), nil
		},
		Drop: spaces.Drop,
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return spaces.Get(namespace).Effects(), nil
		},
	}
}

func redisHarness(t testing.TB) scenarios.Harness {
	s := redisServer.Need(t)
	name := backend.NameRedis
	settled := func(ctx context.Context, namespace string) error { return redis.Settled(ctx, s.DSN(), namespace) }
	if s.Kind == backend.KindMiniredis {
		name, settled = string(backend.KindMiniredis), nil // it lists no clients
	}
	return scenarios.Harness{
		Name: name, Contract: redis.Contract(), Upstream: s.Addr,
		Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			return redis.Open(ctx, s.DSN(), redis.Options{Namespace: env.Namespace, Addr: env.Addr})
		},
		Prepare: func(ctx context.Context, namespace string) error { return redis.Prepare(ctx, s.DSN(), namespace) },
		Drop:    func(ctx context.Context, namespace string) error { return redis.Drop(ctx, s.DSN(), namespace) },
		Effects: func(ctx context.Context, namespace string) ([]model.Applied, error) {
			return redis.Effects(ctx, s.DSN(), namespace)
		},
		Settled: settled, Control: redis.Control,
	}
}

func postgresHarness(t testing.TB) scenarios.Harness {
	s := postgresServer.Need(t)
	admin, err := postgres.OpenAdmin(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return scenarios.Harness{
		Name: "postgres", Contract: postgres.Contract(), Upstream: s.Addr,
		Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			return postgres.OpenWorker(ctx, s.DSN(), env.Namespace, env.Addr)
		},
		Prepare: admin.Prepare, Drop: admin.Drop, Effects: admin.Effects, Settled: admin.Settled,
		Control: admin.Control, Blocked: admin.Blocked,
	}
}

package scenarios_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/adapters/redisttl"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// The other doors: an inbox, whole consumers, and stores that live by their server's clock.

func TestPostgresInbox(t *testing.T) {
	s := postgresServer.Need(t)
	h := postgresHarness(t)
	h.Name, h.Open = "postgres inbox", nil
	h.Contract = model.Contract{Precision: h.Contract.Precision, NoLease: true, AcceptsKey: h.Contract.AcceptsKey}
	h.OpenInbox = func(ctx context.Context, env scenarios.Env) (model.Inbox, error) {
		return postgres.OpenInboxWorker(ctx, s.DSN(), env.Namespace, env.Addr)
	}
	scenarios.Test(t, h, brief, scenarios.Require("Reader"))
}

func TestConsumeOnMemory(t *testing.T) {
	scenarios.Test(t, consumes(memoryHarness()), brief, scenarios.Require("BatchConsumer", "Pruner"))
}

func TestConsumeOnRedis(t *testing.T) {
	scenarios.Test(t, consumes(redisHarness(t)), brief, scenarios.Require("BatchConsumer", "Pruner"))
}

func TestConsumeOnPostgres(t *testing.T) {
	scenarios.Test(t, consumes(postgresHarness(t)), brief, scenarios.Require("BatchConsumer", "Pruner"))
}

// TestRedisTTL waits in real time, in many namespaces side by side.
func TestRedisTTL(t *testing.T) {
	s := redisServer.Need(t)
	waitsAlongside(t, s)
	scenarios.Test(t, ttlHarness(s, 7*24*time.Hour, 24*time.Hour), brief)
}

// The window of this one is over while a plan runs.
func TestRedisTTLForgets(t *testing.T) {
	s := redisServer.Need(t)
	waitsAlongside(t, s)
	scenarios.Test(t, ttlHarness(s, 400*time.Millisecond, 200*time.Millisecond), brief)
}

// waitsAlongside runs a test beside others, if all that it does is wait. A clock that is moved is everybody's.
func waitsAlongside(t *testing.T, s *backend.Server) {
	if s.Advance == nil {
		t.Parallel()
	}
}

// The clock of an imitated Redis moves when it is told to, so that hours and days are tried in no time.
func TestRedisTTLOnMiniredis(t *testing.T) {
	s, err := backend.Miniredis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	scenarios.Test(t, ttlHarness(s, 7*24*time.Hour, 24*time.Hour), brief)
}

func ttlHarness(s *backend.Server, window, redelivery time.Duration) scenarios.Harness {
	h := scenarios.Harness{
		Name: "redis ttl", Contract: redisttl.Contract(window, redelivery), Upstream: s.Addr, Advance: s.Advance,
		Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			return redisttl.Open(ctx, s.DSN(), redisttl.Options{Namespace: env.Namespace, Addr: env.Addr, Window: window})
		},
		Drop:    func(ctx context.Context, namespace string) error { return redis.Drop(ctx, s.DSN(), namespace) },
		Settled: func(ctx context.Context, namespace string) error { return redis.Settled(ctx, s.DSN(), namespace) },
		Control: redis.Control,
	}
	if s.Kind == backend.KindMiniredis {
		h.Name, h.Settled = "miniredis ttl", nil // it lists no clients
	}
	return h
}

// consumes makes a harness of a store into one of a whole consumer: the consume loop over that store, which commits
// the effect together with DONE.
func consumes(h scenarios.Harness) scenarios.Harness {
	open := h.Open
	h.Name, h.Open = "consume on "+h.Name, nil
	h.OpenConsumer = func(ctx context.Context, env scenarios.Env) (scenarios.Consumer, error) {
		store, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		return &looped{store, env.Now}, nil
	}
	return h
}

// looped is a team's consumer, as small as it gets.
type looped struct {
	store model.Store
	now   func() time.Time
}

func (c *looped) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	loop, err := consume.New(c.store, m.Consumer, consume.Options{Now: c.now})
	if err != nil {
		return model.ResultInFlight, err
	}
	result, err := loop.DeliverEffect(ctx, m.ID, func(context.Context, consume.Claim) (model.Effect, error) { return m.Effect, nil })
	if errors.Is(err, consume.ErrInFlight) {
		return model.ResultInFlight, nil
	}
	return result, err
}

// DeliverBatch is one poll of the broker: what one message comes to says nothing of the others.
func (c *looped) DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	results := make([]model.Result, len(batch))
	for i, m := range batch {
		result, err := c.Deliver(ctx, m)
		if err != nil {
			result = model.ResultInFlight // it comes again
		}
		results[i] = result
	}
	return results, nil
}

func (c *looped) Prune(ctx context.Context, before time.Time) (int, error) {
	return c.store.Prune(ctx, before)
}

func (c *looped) Close() error {
	switch s := c.store.(type) {
	case interface{ Close() error }:
		return s.Close()
	case interface{ Close() }:
		s.Close()
	}
	return nil
}

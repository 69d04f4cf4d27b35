package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The warm-up's messages are older than any instant of a plan, so that a plan's Prune and the warm-up's never meet
// each other's records.
const (
	warmUpConsumer = "effectonce warm-up"
	warmUpAge      = 1000 * 24 * time.Hour
)

// warm makes every call once, on messages of its own, so that what happens at a first call (a handshake, a statement
// to prepare, a script to load) is over when the plan runs. Without it the k-th request of a call would be another
// request on a handle that is new, and a plan would not fail again as it failed before.
//
// What the store answers here decides nothing: plans are there to judge it.
func (l *lane) warm(ctx context.Context, worker int, h *handle) {
	if l.h.Upstream == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callAtMost)
	defer cancel()
	l.warmed++
	now := epoch.Add(-warmUpAge)
	old := now.Add(time.Hour)
	if l.h.Contract.Clock == model.ServerClock {
		old = time.Unix(0, 0).Add(24 * time.Hour) // whatever a caller's now was, the records are as young as the plan's
	}
	switch id := fmt.Sprintf("w%d %d", worker, l.warmed); {
	case h.store == nil && l.countsWarmUps():
	case h.inbox != nil:
		_, _ = h.inbox.ApplyOnce(ctx, warmUpConsumer, id, now, warmUpEffect(id))
	case h.consumer != nil:
		was := h.clock.Load()
		if !l.h.waits() { // a consumer has no other clock
			h.clock.Store(now.UnixNano())
		}
		_, _ = h.consumer.Deliver(ctx, model.Message{Consumer: warmUpConsumer, ID: id, Delivery: 1, Effect: warmUpEffect(id)})
		h.clock.Store(was)
	default:
		l.warmStore(ctx, id, now, h)
	}
	if h.reader != nil {
		_, _, _ = h.reader.Lookup(ctx, warmUpConsumer, "w")
	}
	for range warmUpPrunes {
		if h.pruner == nil {
			return
		}
		if n, err := h.pruner.Prune(ctx, old); n == 0 || err != nil {
			return
		}
	}
}

// countsWarmUps: what is finished in a warm-up bears the server's time, and the plan's own Prune would count it.
func (l *lane) countsWarmUps() bool {
	return l.h.Contract.Clock == model.ServerClock && l.h.Contract.Retention == model.UntilPruned
}

func (l *lane) warmStore(ctx context.Context, id string, now time.Time, h *handle) {
	begin := func(how string) (string, model.Record) {
		r, _, _ := h.store.Begin(ctx, warmUpConsumer, id+" "+how, now, time.Hour)
		return id + " " + how, r
	}
	done := func(claimed string) string { // the message to complete
		if l.h.Contract.Clock == model.ServerClock {
			return claimed + " absent"
		}
		return claimed
	}
	key, r := begin("by key")
	_ = h.store.Complete(ctx, warmUpConsumer, done(key), now)
	if h.fencer != nil {
		key, r = begin("by claim")
		_ = h.fencer.CompleteClaim(ctx, warmUpConsumer, done(key), r, now)
	}
	if h.committer != nil && l.h.Effects != nil {
		key, r = begin("with effect")
		_ = h.committer.CommitEffect(ctx, warmUpConsumer, done(key), r, now, warmUpEffect(key))
	}
	if h.rebeginner != nil {
		_, _, _ = h.rebeginner.BeginAs(ctx, warmUpConsumer, key, "warm-up", now, time.Hour)
	}
}

func warmUpEffect(id string) model.Effect {
	return model.Effect{ID: "warm-up " + id, Account: "warm-up"}
}

// warmUpPrunes bounds the calls that a store whose Prune removes few at a time needs to forget the warm-up.
const warmUpPrunes = 10

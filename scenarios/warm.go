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
	begin := func(how string) (string, model.Record) {
		id := fmt.Sprintf("w%d %d %s", worker, l.warmed, how)
		r, _, _ := h.store.Begin(ctx, warmUpConsumer, id, now, time.Hour)
		return id, r
	}
	id, r := begin("by key")
	_ = h.store.Complete(ctx, warmUpConsumer, id, now)
	if h.fencer != nil {
		id, r = begin("by claim")
		_ = h.fencer.CompleteClaim(ctx, warmUpConsumer, id, r, now)
	}
	if h.committer != nil && l.h.Effects != nil {
		id, r = begin("with effect")
		_ = h.committer.CommitEffect(ctx, warmUpConsumer, id, r, now, model.Effect{ID: "warm-up " + id, Account: "warm-up"})
	}
	if h.rebeginner != nil {
		_, _, _ = h.rebeginner.BeginAs(ctx, warmUpConsumer, id, "warm-up", now, time.Hour)
	}
	if h.reader != nil {
		_, _, _ = h.reader.Lookup(ctx, warmUpConsumer, id)
	}
	for range warmUpPrunes {
		if n, err := h.store.Prune(ctx, now.Add(time.Hour)); n == 0 || err != nil {
			return
		}
	}
}

// warmUpPrunes bounds the calls that a store whose Prune removes few at a time needs to forget the warm-up.
const warmUpPrunes = 10

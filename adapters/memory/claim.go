package memory

import (
	"context"
	"time"

	"github.com/effectonce/effectonce/model"
)

// CompleteResult is CompleteClaim that keeps a copy of result beside DONE, byte for byte and nil apart from empty: see
// [model.ResultKeeper]. A claim that is DONE already keeps what it has, also if that is no result.
func (h *Handle) CompleteResult(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, result []byte) error {
	const op = "complete result"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	return named(op, h.space.completeClaim(key{consumer, messageID}, claim.Token, wall(now), outcome{result: result}))
}

// Release gives the claim back, also past its lease as long as nobody took over: the message is claimable from
// visibleAt on, and until then a refused Begin is told visibleAt as LeaseUntil, and the reason. A zero visibleAt is
// now. The same claim may release again, and the last call counts; whatever else it does is [model.ErrFenced], so that
// a heartbeat still on its way cannot take the claim back.
func (h *Handle) Release(ctx context.Context, consumer, messageID string, claim model.Record, now, visibleAt time.Time, reason string) error {
	const op = "release"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	if visibleAt.IsZero() {
		visibleAt = now
	}
	return named(op, h.space.release(key{consumer, messageID}, claim.Token, wall(now), wall(visibleAt), reason))
}

// Extend prolongs the claim to now+lease, also past its lease as long as nobody took over, and answers the record. A
// lease that ends later stays as it is: a heartbeat that was slow on its way shortens nothing. UpdatedAt stays the
// claim's.
func (h *Handle) Extend(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	const op = "extend"
	if err := admitLease(ctx, op, consumer, messageID, now, lease); err != nil {
		return model.Record{}, err
	}
	r, err := h.space.extend(key{consumer, messageID}, claim.Token, wall(now).Add(lease))
	return r, named(op, err)
}

// Bury gives the message up, also past the claim's lease as long as nobody took over: DEAD, with the reason, which a
// refused Begin is told. Prune never removes it, and Complete does not finish it. Burying again by the same claim is
// ok, and the first reason stays.
func (h *Handle) Bury(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, reason string) error {
	const op = "bury"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	return named(op, h.space.bury(key{consumer, messageID}, claim.Token, wall(now), reason))
}

// Replay opens a dead letter again: claimable from now on, its attempts kept, its reason gone, every earlier claim
// stale. Without a record the error is [model.ErrNotFound], and for a record that is no dead letter
// [model.ErrRefused], so also where a Replay before this one has opened it.
func (h *Handle) Replay(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "replay"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	return named(op, h.space.replay(key{consumer, messageID}, wall(now)))
}

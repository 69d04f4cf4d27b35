package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Handle is one worker's access to a [Space]: a [model.Store] that offers every optional interface of the model. Every
// method ends at once, so a context counts only if it is
// over before the call: then nothing changes, and the error says so ([model.NoEffect]). Input that names nothing (an
// empty consumer, message id or nonce, a zero now, a lease ≤ 0) is [model.ErrRefused].
type Handle struct{ space *Space }

var (
	_ model.Store           = (*Handle)(nil)
	_ model.Rebeginner      = (*Handle)(nil)
	_ model.Fencer          = (*Handle)(nil)
	_ model.EffectCommitter = (*Handle)(nil)
	_ model.ResultKeeper    = (*Handle)(nil)
	_ model.Releaser        = (*Handle)(nil)
	_ model.Extender        = (*Handle)(nil)
	_ model.DeadLetterer    = (*Handle)(nil)
	_ model.Reader          = (*Handle)(nil)
)

// Begin claims a message: see [model.Store].
func (h *Handle) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if err := admitLease(ctx, "begin", consumer, messageID, now, lease); err != nil {
		return model.Record{}, false, err
	}
	r, claimed := h.space.begin(key{consumer, messageID}, "", wall(now), lease)
	return r, claimed, nil
}

// BeginAs is Begin under a nonce that names one delivery: see [model.Rebeginner].
func (h *Handle) BeginAs(ctx context.Context, consumer, messageID, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if err := admitLease(ctx, "begin as", consumer, messageID, now, lease); err != nil {
		return model.Record{}, false, err
	}
	if nonce == "" {
		return model.Record{}, false, refused("begin as", "the nonce is empty")
	}
	r, claimed := h.space.begin(key{consumer, messageID}, nonce, wall(now), lease)
	return r, claimed, nil
}

// Complete makes a message DONE, whoever holds it, and whether or not it was released. DONE already is ok and keeps
// UpdatedAt; without a record the error is [model.ErrNotFound], and for a dead letter [model.ErrFenced].
func (h *Handle) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	if err := admit(ctx, "complete", consumer, messageID, now); err != nil {
		return err
	}
	return named("complete", h.space.complete(key{consumer, messageID}, wall(now)))
}

// CompleteClaim makes a message DONE if claim is current, also past its lease as long as nobody took over: see
// [model.Fencer]. Without a record the error is [model.ErrNotFound].
func (h *Handle) CompleteClaim(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time) error {
	if err := admit(ctx, "complete claim", consumer, messageID, now); err != nil {
		return err
	}
	return named("complete claim", h.space.completeClaim(key{consumer, messageID}, claim.Token, wall(now), outcome{}))
}

// CommitEffect is CompleteClaim that writes the effect to the ledger in the same step: see [model.EffectCommitter]. A
// claim that is DONE already writes no second effect, also where Complete made it so.
func (h *Handle) CommitEffect(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, effect model.Effect) error {
	if err := admit(ctx, "commit effect", consumer, messageID, now); err != nil {
		return err
	}
	return named("commit effect", h.space.completeClaim(key{consumer, messageID}, claim.Token, wall(now), outcome{effect: &effect}))
}

// Prune forgets every DONE record updated before the given instant and answers how many, in one step.
func (h *Handle) Prune(ctx context.Context, before time.Time) (int, error) {
	if err := alive(ctx, "prune"); err != nil {
		return 0, err
	}
	return h.space.prune(wall(before)), nil
}

// Lookup answers the record as it stands; false where there is none.
func (h *Handle) Lookup(ctx context.Context, consumer, messageID string) (model.Record, bool, error) {
	if err := alive(ctx, "lookup"); err != nil {
		return model.Record{}, false, err
	}
	if err := admitKey("lookup", consumer, messageID); err != nil {
		return model.Record{}, false, err
	}
	r, found := h.space.lookup(key{consumer, messageID})
	return r, found, nil
}

func admitLease(ctx context.Context, op, consumer, messageID string, now time.Time, lease time.Duration) error {
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	if lease <= 0 {
		return refused(op, "the lease is not positive")
	}
	return nil
}

func admit(ctx context.Context, op, consumer, messageID string, now time.Time) error {
	if err := alive(ctx, op); err != nil {
		return err
	}
	if now.IsZero() {
		return refused(op, "now is zero")
	}
	return admitKey(op, consumer, messageID)
}

func admitKey(op, consumer, messageID string) error {
	switch {
	case consumer == "":
		return refused(op, "the consumer is empty")
	case messageID == "":
		return refused(op, "the message id is empty")
	}
	return nil
}

func alive(ctx context.Context, op string) error {
	return model.NoEffect(named(op, ctx.Err()))
}

func refused(op, why string) error {
	return fmt.Errorf("memory: %s: %s: %w", op, why, model.ErrRefused)
}

func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memory: %s: %w", op, err)
}

// wall drops the monotonic reading: two workers' instants are compared as wall instants, as every other store does.
func wall(t time.Time) time.Time { return t.Round(0) }

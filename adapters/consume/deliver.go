package consume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Deliver claims the message, runs the handler, and completes: by claim if the store is a Fencer, by key otherwise.
//
//   - ResultApplied: the handler succeeded now, and DONE is recorded.
//   - ResultDuplicate: it had before; the handler did not run.
//   - ResultBuried: a dead letter; the handler did not run. With [ErrBuried]: buried by this very delivery.
//   - ResultInFlight, always with an error: do not acknowledge. [ErrInFlight]: another delivery is at it.
//     Any other error is the handler's or the store's.
//
// ctx bounds the claim and reaches the handler, whose context ends when Deliver returns, or earlier by a heartbeat.
// The handler runs in the caller's goroutine, at most once, and its panic goes through. An error of the handler leaves
// the lease alone, except as [Options] say.
func (l *Loop) Deliver(ctx context.Context, messageID string, handler func(ctx context.Context, claim Claim) error) (model.Result, error) {
	if handler == nil {
		return refuse("the handler is nil")
	}
	_, result, err := l.deliver(ctx, messageID, work{
		handle: handler,
		finish: func(ctx context.Context, claim Claim, now time.Time) error {
			if l.fencer != nil {
				return l.fencer.CompleteClaim(ctx, claim.Consumer, claim.MessageID, claim.Record, now)
			}
			return l.store.Complete(ctx, claim.Consumer, claim.MessageID, now)
		},
		external: true,
		unfenced: l.fencer == nil,
	})
	return result, err
}

// DeliverResult is [Loop.Deliver] for a handler with an answer, such as the reply to a request: the bytes are kept with
// DONE and come back with ResultApplied and with every ResultDuplicate. No bytes come back as nil or empty, as the
// store has it, also where another method made the message DONE. Without a ResultKeeper the error is an
// [errors.ErrUnsupported], and nothing was asked or run.
func (l *Loop) DeliverResult(ctx context.Context, messageID string, handler func(ctx context.Context, claim Claim) ([]byte, error)) ([]byte, model.Result, error) {
	if handler == nil {
		result, err := refuse("the handler is nil")
		return nil, result, err
	}
	if l.keeper == nil {
		return nil, model.ResultInFlight, fmt.Errorf("consume: deliver: the store is no ResultKeeper: %w", errors.ErrUnsupported)
	}
	var kept []byte
	record, result, err := l.deliver(ctx, messageID, work{
		handle: func(ctx context.Context, claim Claim) (err error) {
			kept, err = handler(ctx, claim)
			return err
		},
		finish: func(ctx context.Context, claim Claim, now time.Time) error {
			return l.keeper.CompleteResult(ctx, claim.Consumer, claim.MessageID, claim.Record, now, kept)
		},
		external: true,
	})
	switch {
	case err != nil:
		return nil, result, err
	case result == model.ResultDuplicate:
		return record.Result, result, nil
	}
	return kept, result, nil
}

// DeliverEffect is [Loop.Deliver] for a handler that only decides the effect: the store commits it together with DONE,
// both or neither. An error, [ErrClaimLost] too, therefore never stands for an effect without DONE. Without an
// EffectCommitter the error is an [errors.ErrUnsupported], and nothing was asked or run.
func (l *Loop) DeliverEffect(ctx context.Context, messageID string, handler func(ctx context.Context, claim Claim) (model.Effect, error)) (model.Result, error) {
	if handler == nil {
		return refuse("the handler is nil")
	}
	if l.committer == nil {
		return model.ResultInFlight, fmt.Errorf("consume: deliver: the store is no EffectCommitter: %w", errors.ErrUnsupported)
	}
	var effect model.Effect
	_, result, err := l.deliver(ctx, messageID, work{
		handle: func(ctx context.Context, claim Claim) (err error) {
			effect, err = handler(ctx, claim)
			return err
		},
		finish: func(ctx context.Context, claim Claim, now time.Time) error {
			return l.committer.CommitEffect(ctx, claim.Consumer, claim.MessageID, claim.Record, now, effect)
		},
	})
	return result, err
}

// DeliverCommitted is [Loop.Deliver] for a handler that makes the message DONE itself, in the transaction of its own
// business write, by the claim and with [Claim.Now] as the instant: with the Postgres store, by CommitTx. Its nil is
// taken as DONE, and the loop completes nothing. A heartbeat that meets the DONE may cancel the handler's context
// after its commit, so the commit should be the handler's last step.
func (l *Loop) DeliverCommitted(ctx context.Context, messageID string, handler func(ctx context.Context, claim Claim) error) (model.Result, error) {
	if handler == nil {
		return refuse("the handler is nil")
	}
	_, result, err := l.deliver(ctx, messageID, work{handle: handler})
	return result, err
}

// work is one way to handle and finish a message.
type work struct {
	handle   func(ctx context.Context, claim Claim) error
	finish   func(ctx context.Context, claim Claim, now time.Time) error // nil: the handler has finished
	external bool                                                        // the effect has happened before finish
	unfenced bool                                                        // finish would finish anybody's claim
}

func (l *Loop) deliver(ctx context.Context, messageID string, w work) (model.Record, model.Result, error) {
	if messageID == "" {
		result, err := refuse("the message id is empty")
		return model.Record{}, result, err
	}
	called := time.Now()
	record, until, claimed, err := l.begin(ctx, messageID, called)
	if err != nil {
		return model.Record{}, model.ResultInFlight, err
	}
	if !claimed {
		result, err := refused(record)
		return record, result, err
	}
	claim := Claim{Consumer: l.consumer, MessageID: messageID, Record: record, now: l.now}
	if n := l.options.BuryAfter; n > 0 && record.Attempts > n {
		why := fmt.Errorf("claimed %d times and never finished", record.Attempts-1)
		result, err := l.bury(ctx, claim, reason(why), fmt.Errorf("consume: begin: %w", why))
		return record, result, err
	}
	if l.options.Now == nil && !time.Now().Before(until) {
		// Begin's answer came after the lease it tells of: by now another may hold the message. Under a clock of
		// the caller's the machine's says nothing about the lease.
		return record, model.ResultInFlight, fmt.Errorf("consume: begin: %w: answered after %v, lease %v", ErrClaimLost, time.Since(called), l.options.Lease)
	}
	end, err := l.handle(ctx, claim, until, w.handle)
	if err != nil {
		result, err := l.failed(ctx, claim, end, err)
		return record, result, err
	}
	result, err := l.finish(ctx, claim, end, w)
	return record, result, err
}

// refused translates the record that refused a claim. Only DONE and DEAD are the end of a message; whatever else it
// says, the message is not known to be finished.
func refused(record model.Record) (model.Result, error) {
	switch record.State {
	case model.Done:
		return model.ResultDuplicate, nil
	case model.Dead:
		return model.ResultBuried, nil
	}
	return model.ResultInFlight, &InFlightError{Record: record}
}

// handle runs the handler, under a heartbeat if there is one, and answers how the heartbeat ended. Its context is over
// at the return, so that nothing the handler left behind works on under the claim.
func (l *Loop) handle(ctx context.Context, claim Claim, until time.Time, handler func(context.Context, Claim) error) (end beatEnd, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.options.Heartbeat > 0 {
		b := l.beat(ctx, cancel, claim, until)
		defer func() { end = b.stop() }() // also when the handler panics
	}
	return beatEnd{}, handler(ctx, claim)
}

// finish records what the handler has done. It is for the store to say whether the claim was current: the heartbeat
// may have been fenced by the handler's own commit, and a lease that ran out may have had no taker.
func (l *Loop) finish(ctx context.Context, claim Claim, end beatEnd, w work) (model.Result, error) {
	if w.finish == nil {
		return model.ResultApplied, nil
	}
	err := end.fenced
	if err == nil || !w.unfenced {
		ctx, cancel := l.finishing(ctx)
		defer cancel()
		err = w.finish(ctx, claim, l.now())
	}
	if err == nil {
		return model.ResultApplied, nil
	}
	err = claimError("complete", err)
	if w.external {
		err = fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return model.ResultInFlight, err
}

// failed leaves the lease alone, or buries or releases the claim as the options say. Nothing is written about a claim
// that is known to be lost.
func (l *Loop) failed(ctx context.Context, claim Claim, end beatEnd, failure error) (model.Result, error) {
	_, untouched := failure.(unapplied) // the handler's own word, not that of something it wraps
	err := fmt.Errorf("consume: handle: %w", failure)
	switch n := l.options.BuryAfter; {
	case end.fenced != nil:
		return model.ResultInFlight, fmt.Errorf("%w: %w", err, claimError("extend", end.fenced))
	case end.over:
		return model.ResultInFlight, fmt.Errorf("%w: %w", err, errLeaseOver)
	case n > 0 && claim.Record.Attempts >= n:
		return l.bury(ctx, claim, reason(failure), err)
	case l.options.RetryIn != nil && untouched:
		if released := l.release(ctx, claim, failure); released != nil {
			err = errors.Join(err, released)
		}
	}
	return model.ResultInFlight, err
}

func (l *Loop) release(ctx context.Context, claim Claim, failure error) error {
	in := max(l.options.RetryIn(claim.Record.Attempts), 0)
	ctx, cancel := l.finishing(ctx)
	defer cancel()
	now := l.now()
	if err := l.releaser.Release(ctx, claim.Consumer, claim.MessageID, claim.Record, now, now.Add(in), reason(failure)); err != nil {
		return claimError("release", err)
	}
	return nil
}

func (l *Loop) bury(ctx context.Context, claim Claim, reason string, why error) (model.Result, error) {
	ctx, cancel := l.finishing(ctx)
	defer cancel()
	if err := l.burier.Bury(ctx, claim.Consumer, claim.MessageID, claim.Record, l.now(), reason); err != nil {
		return model.ResultInFlight, errors.Join(why, claimError("bury", err))
	}
	return model.ResultBuried, fmt.Errorf("%w: %w", ErrBuried, why)
}

// finishing is the context of a call that ends a claim: the caller's values, its own end.
func (l *Loop) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), l.options.FinishWithin)
}

func refuse(why string) (model.Result, error) {
	return model.ResultInFlight, fmt.Errorf("consume: deliver: %s: %w", why, model.ErrRefused)
}

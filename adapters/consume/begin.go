package consume

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce/model"
)

// unclear is the error of a Begin whose outcome is unknown: the claim may be this delivery's.
type unclear struct {
	err              error
	loop             *Loop
	messageID, nonce string
	asked            atomic.Bool
}

func (u *unclear) Error() string { return u.err.Error() }
func (u *unclear) Unwrap() error { return u.err }

// Again answers a loop that asks once more for the same delivery, for an error that a Deliver method returned (and
// nobody wrapped since) because the answer to its Begin was lost. If that Begin did take effect, the claim is found to
// be this delivery's own and the handler runs now; otherwise the message is claimed, or not, as ever. ok is false for
// every other error, and for a store that is no Rebeginner: then the next redelivery asks, and may have to wait for
// the lease.
//
//	result, err := loop.Deliver(ctx, id, handler)
//	if again, ok := consume.Again(err); ok {
//		result, err = again.Deliver(ctx, id, handler)
//	}
//
// The answered loop delivers this one message, once: two owners of one claim would both run it. If its answer is lost
// too, its error can be given to Again. Whether and how often to ask is the caller's decision; the loop never does.
func Again(err error) (again *Loop, ok bool) {
	u, ok := err.(*unclear) // an error that a handler got from a loop of its own is wrapped, and not ours to repeat
	if !ok {
		return nil, false
	}
	l := *u.loop
	l.again = u
	return &l, true
}

// begin claims, and answers until when the claim can be relied on by the machine's monotonic clock: a lease from the
// call, since it may have taken effect as soon as it was made.
func (l *Loop) begin(ctx context.Context, messageID string, called time.Time) (record model.Record, until time.Time, claimed bool, err error) {
	var nonce string
	switch {
	case l.again != nil:
		if l.again.messageID != messageID {
			return record, until, false, fmt.Errorf("consume: begin: asked again for another message: %w", model.ErrRefused)
		}
		if l.again.asked.Swap(true) {
			return record, until, false, fmt.Errorf("consume: begin: asked again already: %w", model.ErrRefused)
		}
		nonce = l.again.nonce
	case l.rebeginner != nil:
		nonce = rand.Text() // one delivery, one nonce
	}

	now, lease := l.now(), l.options.Lease
	if nonce != "" {
		record, claimed, err = l.rebeginner.BeginAs(ctx, l.consumer, messageID, nonce, now, lease)
	} else {
		record, claimed, err = l.store.Begin(ctx, l.consumer, messageID, now, lease)
	}
	if err != nil {
		err = fmt.Errorf("consume: begin: %w", err)
		if nonce != "" && model.OutcomeOf(err) == model.Unknown {
			err = &unclear{err: err, loop: l, messageID: messageID, nonce: nonce}
		}
		return record, until, false, err
	}
	if claimed && (record.State == model.Done || record.State == model.Dead) {
		return record, until, false, fmt.Errorf("consume: begin: the store says claimed, and %s", record.State)
	}
	if left := record.LeaseUntil.Sub(now); l.again != nil && 0 < left && left < lease {
		lease = left // found to be claimed before, by a call of this delivery
	}
	return record, called.Add(lease), claimed, nil
}

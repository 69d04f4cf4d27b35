package consume

import (
	"context"
	"fmt"
	"time"
)

// errLeaseOver is how a handler ends whose claim could not be prolonged in time.
var errLeaseOver = fmt.Errorf("consume: extend: %w: a lease passed without an extension", ErrClaimLost)

// heartbeat prolongs one claim while its handler runs. One goroutine extends; the end of the lease is a timer of its
// own, so that a call to the store that hangs cannot hide it from the handler.
type heartbeat struct {
	loop   *Loop
	claim  Claim
	cancel context.CancelCauseFunc // of the handler
	until  time.Time               // the claim can be relied on before this instant
	over   *time.Timer             // fires then, and cancels
	hold   time.Time               // no extension from here on
	fenced error                   // the store's word that the claim is lost

	done  chan struct{} // closed when the handler has returned
	ended chan struct{} // closed when the goroutine has
}

// beatEnd is how a heartbeat ended; zero: with its handler, or there was none.
type beatEnd struct {
	fenced error // the store said that the claim is lost
	over   bool  // a lease passed without an extension
}

func (l *Loop) beat(ctx context.Context, cancel context.CancelCauseFunc, claim Claim, until time.Time) *heartbeat {
	b := &heartbeat{
		loop: l, claim: claim, cancel: cancel, until: until,
		hold: time.Now().Add(l.options.HoldAtMost),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	b.over = time.AfterFunc(time.Until(until), func() { cancel(errLeaseOver) })
	// The end of the caller's context asks the handler to stop; until it has, its claim has to live.
	go b.run(context.WithoutCancel(ctx))
	return b
}

// stop ends the heartbeat and waits for it. A call under way is left to return, within its time-out, instead of being
// cut: a request that was sent would reach the store after the completion or the release that comes next.
func (b *heartbeat) stop() beatEnd {
	close(b.done)
	<-b.ended
	fired := !b.over.Stop()
	return beatEnd{fenced: b.fenced, over: fired}
}

func (b *heartbeat) run(ctx context.Context) {
	defer close(b.ended)
	tick := time.NewTicker(b.loop.options.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-b.done:
			return
		case <-tick.C:
		}
		now := time.Now()
		if !now.Before(b.until) || !now.Before(b.hold) || !b.extend(ctx, now) {
			return
		}
	}
}

// extend asks once, and says whether to go on. An error that proves nothing is answered by the next tick: the claim may
// live, and as long as its lease does there is time to try.
func (b *heartbeat) extend(ctx context.Context, called time.Time) bool {
	o, c := &b.loop.options, &b.claim
	ctx, cancel := context.WithTimeout(ctx, min(o.Heartbeat, b.until.Sub(called)))
	defer cancel()
	_, err := b.loop.extender.Extend(ctx, c.Consumer, c.MessageID, c.Record, b.loop.now(), o.Lease)
	switch {
	case err == nil:
		if b.over.Stop() { // else it is too late: the handler has been told, and the next tick is the last
			b.until = called.Add(o.Lease)
			b.over.Reset(time.Until(b.until))
		}
	case lost(err):
		b.fenced = err
		b.cancel(claimError("extend", err))
		return false
	}
	return true
}

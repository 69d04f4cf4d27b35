package consume_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/model"
)

// inMemory is what the five tests of the contract's source run over: once with all that the store can, once with the
// base interface alone.
func inMemory(t *testing.T, test func(t *testing.T, open func() model.Store)) {
	t.Run("fenced", func(t *testing.T) {
		space := memory.New(memory.Options{})
		test(t, func() model.Store { return space.Open() })
	})
	t.Run("base interface alone", func(t *testing.T) {
		space := memory.New(memory.Options{})
		test(t, func() model.Store { return struct{ model.Store }{space.Open()} })
	})
}

func TestDuplicateDeliveryAppliesOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, open func() model.Store) {
		l := newLoop(t, open(), consume.Options{Now: newClock().Now})
		calls := 0
		for _, wanted := range []model.Result{model.ResultApplied, model.ResultDuplicate, model.ResultDuplicate} {
			result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
			want(t, result, err, wanted)
		}
		if calls != 1 {
			t.Errorf("%d handler calls, want 1", calls)
		}
	})
}

func TestSixConcurrentConsumersApplyOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, open func() model.Store) {
		const consumers = 6
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var calls atomic.Int32
		refused := make(chan struct{}, consumers)
		// The winner works until all others have their answers, so that their deliveries do overlap its claim.
		handler := func(ctx context.Context, _ consume.Claim) error {
			calls.Add(1)
			for range consumers - 1 {
				select {
				case <-refused:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		var all sync.WaitGroup
		var applied, inFlight atomic.Int32
		now := newClock().Now
		for range consumers {
			l := newLoop(t, open(), consume.Options{Now: now})
			all.Go(func() {
				switch result, err := l.Deliver(ctx, "m", handler); {
				case err == nil && result == model.ResultApplied:
					applied.Add(1)
				case errors.Is(err, consume.ErrInFlight) && result == model.ResultInFlight:
					inFlight.Add(1)
					refused <- struct{}{}
				default:
					t.Errorf("result %d, %v", result, err)
					refused <- struct{}{}
				}
			})
		}
		all.Wait()
		if applied.Load() != 1 || inFlight.Load() != consumers-1 || calls.Load() != 1 {
			t.Errorf("applied %d, in flight %d, handler calls %d, want 1, %d, 1", applied.Load(), inFlight.Load(), calls.Load(), consumers-1)
		}
		for range consumers - 1 { // the broker brings back what was not acknowledged
			result, err := newLoop(t, open(), consume.Options{Now: now}).Deliver(ctx, "m", handler)
			want(t, result, err, model.ResultDuplicate)
		}
	})
}

func TestHandlerThatFailsTwiceSucceedsTheThirdTime(t *testing.T) {
	inMemory(t, func(t *testing.T, open func() model.Store) {
		c := newClock()
		l := newLoop(t, open(), consume.Options{Now: c.Now, Lease: lease})
		calls := 0
		handler := func(_ context.Context, claim consume.Claim) error {
			if calls++; claim.Record.Attempts != calls {
				t.Errorf("attempt %d at call %d", claim.Record.Attempts, calls)
			}
			if calls < 3 {
				return errBoom
			}
			return nil
		}
		for range 2 {
			result, err := l.Deliver(t.Context(), "m", handler)
			want(t, result, err, model.ResultInFlight, errBoom)
			c.advance(lease) // exactly the lease: takeover at its end, not after it
		}
		result, err := l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultApplied)
		if calls != 3 {
			t.Errorf("%d handler calls, want 3", calls)
		}
	})
}

func TestCrashBeforeCompletionHoldsTheLeaseUntilItsEnd(t *testing.T) {
	inMemory(t, func(t *testing.T, open func() model.Store) {
		c := newClock()
		o := consume.Options{Now: c.Now, Lease: lease}
		crashed := make(chan struct{})
		go func() {
			defer close(crashed)
			// The goroutine ends inside the handler: nothing after it runs.
			_, _ = newLoop(t, open(), o).Deliver(context.WithoutCancel(t.Context()), "m", func(context.Context, consume.Claim) error {
				runtime.Goexit()
				return nil
			})
			t.Error("the loop went on after the crash")
		}()
		<-crashed

		calls, attempts := 0, 0
		handler := func(_ context.Context, claim consume.Claim) error {
			calls++
			attempts = claim.Record.Attempts
			return nil
		}
		l := newLoop(t, open(), o)
		c.advance(lease - 1)
		result, err := l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultInFlight, consume.ErrInFlight)
		if calls != 0 {
			t.Fatal("the handler ran under a live lease")
		}
		c.advance(1)
		result, err = l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultApplied)
		if calls != 1 || attempts != 2 {
			t.Errorf("%d calls, attempts %d, want 1 and 2", calls, attempts)
		}
		for range 3 {
			c.advance(lease)
			if r, claimed, err := open().Begin(t.Context(), "billing", "m", c.Now(), lease); claimed || err != nil || r.State != model.Done {
				t.Errorf("after Complete: %+v, claimed %v, %v", r, claimed, err)
			}
		}
	})
}

func TestPruneDefinesTheWindow(t *testing.T) {
	inMemory(t, func(t *testing.T, open func() model.Store) {
		const window, work = 7 * 24 * time.Hour, 20 * time.Second
		c := newClock()
		store := open()
		l := newLoop(t, store, consume.Options{Now: c.Now, Lease: lease})
		calls := 0
		handler := func(context.Context, consume.Claim) error {
			calls++
			c.advance(work)
			return nil
		}
		prune := func(wanted int) {
			t.Helper()
			if n, err := store.Prune(t.Context(), c.Now().Add(-window)); n != wanted || err != nil {
				t.Errorf("pruned %d, %v, want %d", n, err, wanted)
			}
		}
		result, err := l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultApplied)

		// The window is counted from the completion: with the claim's instant it would be over `work` ago.
		c.advance(window)
		prune(0)
		result, err = l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultDuplicate)

		c.advance(1)
		prune(1)
		result, err = l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultApplied)
		if calls != 2 {
			t.Errorf("%d handler calls, want 2", calls)
		}
	})
}

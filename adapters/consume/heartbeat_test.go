package consume_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/model"
)

// Time below is a bubble's: a bubble also fails if a goroutine is left behind at its end.

const every = lease / 3

// off keeps the instants of a test away from those of the heartbeat.
const off = time.Millisecond

func beating(t testing.TB, store model.Store, o consume.Options) *consume.Loop {
	o.Lease, o.Heartbeat = lease, every
	return newLoop(t, store, o)
}

// working is a handler that takes d, or until its context ends.
func working(d time.Duration) func(context.Context, consume.Claim) error {
	return func(ctx context.Context, _ consume.Claim) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestHeartbeatHoldsTheClaimWhileTheHandlerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			result, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", working(5*lease+off))
			want(t, result, err, model.ResultApplied)
		}()
		for range 5 { // at the end of each lease that was not prolonged
			time.Sleep(lease)
			synctest.Wait()
			result, err := newLoop(t, s, consume.Options{}).Deliver(t.Context(), "m", working(0))
			want(t, result, err, model.ResultInFlight, consume.ErrInFlight)
		}
		<-ended
		if n := s.count("extend"); n != 15 || s.record("m").State != model.Done {
			t.Errorf("%d extensions, want 15; record %+v", n, s.record("m"))
		}
	})
}

func TestHeartbeatEndsWithItsHandler(t *testing.T) {
	for name, end := range map[string]func() error{
		"success": func() error { return nil },
		"failure": func() error { return errBoom },
		"panic":   func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAble()
				func() {
					defer func() { _ = recover() }()
					_, _ = beating(t, s, consume.Options{}).Deliver(t.Context(), "m", func(ctx context.Context, c consume.Claim) error {
						_ = working(2*every+off)(ctx, c)
						return end()
					})
				}()
				time.Sleep(3 * lease)
				if n := s.count("extend"); n != 2 {
					t.Errorf("%d extensions, want 2", n)
				}
				result, err := newLoop(t, s, consume.Options{}).Deliver(t.Context(), "m", working(0))
				if name == "success" {
					want(t, result, err, model.ResultDuplicate)
				} else {
					want(t, result, err, model.ResultApplied) // the lease ran out by itself
				}
			})
		})
	}
}

func TestHeartbeatGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		// Of three attempts one fails before it was done and one after, which is as good as none: the loop cannot tell.
		s.disturb = func(_ context.Context, op string, n int) (refuse, lose error) {
			switch {
			case op != "extend" || n%3 == 0:
				return nil, nil
			case n%3 == 1:
				return errLink, nil
			}
			return nil, errLink
		}
		// The third attempt of each lease would be at its very end, so two of three may fail only with a short interval.
		l := newLoop(t, s, consume.Options{Lease: lease, Heartbeat: lease / 4})
		result, err := l.Deliver(t.Context(), "m", working(5*lease+off))
		want(t, result, err, model.ResultApplied)
		if n := s.count("extend"); n != 20 {
			t.Errorf("%d extensions, want 20", n)
		}
	})
}

func TestHandlerIsStoppedWhenALeasePassesWithoutAnExtension(t *testing.T) {
	for name, c := range map[string]struct {
		disturb  func(ctx context.Context) error
		attempts int           // all extensions, the good one among them
		returned time.Duration // Deliver
	}{
		"errors": {func(context.Context) error { return errLink }, 3, every + lease + off},
		"no answer": {func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 3, every + lease + off},
		"no answer, context ignored": {func(context.Context) error {
			time.Sleep(2 * lease)
			return errLink
		}, 2, 2*every + 2*lease}, // a store's call is waited for; the handler is not made to
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAble()
				s.disturb = func(ctx context.Context, op string, n int) (error, error) {
					if op == "extend" && n > 1 {
						return c.disturb(ctx), nil
					}
					return nil, nil
				}
				start := time.Now()
				var stopped time.Duration
				l := beating(t, s, consume.Options{BuryAfter: 1, RetryIn: at0})
				result, err := l.Deliver(t.Context(), "m", func(ctx context.Context, _ consume.Claim) error {
					<-ctx.Done()
					stopped = time.Since(start)
					time.Sleep(off)
					if !errors.Is(context.Cause(ctx), consume.ErrClaimLost) {
						t.Errorf("cause %v", context.Cause(ctx))
					}
					return consume.Unapplied(errBoom)
				})
				want(t, result, err, model.ResultInFlight, errBoom, consume.ErrClaimLost)
				isNot(t, err, consume.ErrUnrecorded)
				if stopped != every+lease { // a lease after the one extension
					t.Errorf("stopped after %v, want %v", stopped, every+lease)
				}
				if took := time.Since(start); took != c.returned || s.count("extend") != c.attempts {
					t.Errorf("returned after %v with %d extensions, want %v and %d", took, s.count("extend"), c.returned, c.attempts)
				}
				if s.count("bury")+s.count("release") != 0 {
					t.Errorf("calls %v: nothing is written about a claim that may be another's", s.called())
				}
			})
		})
	}
}

func TestHandlerIsStoppedWhenTheClaimIsLost(t *testing.T) {
	for _, proof := range []error{model.ErrFenced, model.ErrNotFound} {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			s.disturb = at("extend", 2, proof, nil)
			start := time.Now()
			l := beating(t, s, consume.Options{BuryAfter: 1})
			result, err := l.Deliver(t.Context(), "m", working(time.Hour))
			want(t, result, err, model.ResultInFlight, consume.ErrClaimLost, proof)
			if took := time.Since(start); took != 2*every || s.count("extend") != 2 || s.count("bury") != 0 {
				t.Errorf("after %v, calls %v", took, s.called())
			}
		})
	}
}

// The handler did not listen, and its effect happened: the store's word counts, never the heartbeat's fear.
func TestStoreDecidesWhetherALateHandlerWasCurrent(t *testing.T) {
	stubborn := func(d time.Duration) func(context.Context, consume.Claim) error {
		return func(context.Context, consume.Claim) error { time.Sleep(d); return nil }
	}
	t.Run("lease over, nobody took over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			s.disturb = at("extend", 0, errLink, nil)
			result, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", stubborn(2*lease))
			want(t, result, err, model.ResultApplied)
		})
	})
	t.Run("lease over, taken over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			s.disturb = at("extend", 0, errLink, nil)
			result, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", func(ctx context.Context, c consume.Claim) error {
				time.Sleep(lease + off)
				_, claimed, err := s.Begin(ctx, c.Consumer, c.MessageID, time.Now(), lease)
				if !claimed || err != nil {
					t.Errorf("takeover: %v, %v", claimed, err)
				}
				return nil
			})
			want(t, result, err, model.ResultInFlight, consume.ErrClaimLost, consume.ErrUnrecorded)
		})
	})
	t.Run("the handler committed by itself, which fenced the heartbeat", func(t *testing.T) {
		for _, committed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newAble()
				deliver := beating(t, s, consume.Options{}).Deliver
				if committed {
					deliver = beating(t, s, consume.Options{}).DeliverCommitted
				}
				result, err := deliver(t.Context(), "m", func(ctx context.Context, c consume.Claim) error {
					err := s.CommitEffect(ctx, c.Consumer, c.MessageID, c.Record, c.Now(), model.Effect{ID: "e"})
					time.Sleep(every + off)
					return err
				})
				want(t, result, err, model.ResultApplied)
				if s.count("extend") != 1 || len(s.ledger) != 1 {
					t.Errorf("calls %v, %d effects", s.called(), len(s.ledger))
				}
			})
		}
	})
	t.Run("lost, and the store cannot fence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			s.disturb = at("extend", 1, model.ErrFenced, nil)
			l := beating(t, struct {
				model.Store
				model.Extender
			}{s, s}, consume.Options{})
			result, err := l.Deliver(t.Context(), "m", stubborn(2*every))
			want(t, result, err, model.ResultInFlight, consume.ErrClaimLost, consume.ErrUnrecorded)
			if s.count("complete") != 0 {
				t.Error("completed what is known to be another's")
			}
		})
	})
}

// An extension that would reach the store after the completion could bring a finished claim back to life.
func TestExtensionUnderWayReturnsBeforeTheCompletion(t *testing.T) {
	for _, failure := range []error{nil, consume.Unapplied(errBoom)} {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			s.disturb = func(ctx context.Context, op string, _ int) (error, error) {
				if op == "extend" {
					time.Sleep(every / 2)
					return ctx.Err(), nil
				}
				return nil, nil
			}
			l := beating(t, s, consume.Options{RetryIn: at0})
			_, err := l.Deliver(t.Context(), "m", func(context.Context, consume.Claim) error {
				time.Sleep(every + off)
				return failure
			})
			if failure == nil && err != nil {
				t.Error(err)
			}
			last := "complete-claim"
			if failure != nil {
				last = "release"
			}
			if got := s.called(); !slices.Equal(got, []string{"begin-as", "extend", last}) {
				t.Errorf("calls %v", got)
			}
		})
	}
}

func TestHeartbeatBeatsOnWhileTheHandlerWindsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		s.disturb = func(ctx context.Context, _ string, _ int) (error, error) { return ctx.Err(), nil }
		ctx, cancel := context.WithTimeout(t.Context(), off)
		defer cancel()
		result, err := beating(t, s, consume.Options{}).Deliver(ctx, "m", func(ctx context.Context, c consume.Claim) error {
			<-ctx.Done()
			time.Sleep(2 * lease)
			return nil
		})
		want(t, result, err, model.ResultApplied)
		if n := s.count("extend"); n != 6 {
			t.Errorf("%d extensions, want 6", n)
		}
	})
}

func TestHandlerThatHangsIsHeldForABoundedTime(t *testing.T) {
	for given, hold := range map[time.Duration]time.Duration{
		0: consume.DefaultHold * lease, 2 * lease: 2 * lease, lease: lease,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newAble()
			start := time.Now()
			l := beating(t, s, consume.Options{HoldAtMost: given})
			result, err := l.Deliver(t.Context(), "m", func(ctx context.Context, _ consume.Claim) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			want(t, result, err, model.ResultInFlight, consume.ErrClaimLost)
			// The last extension comes one interval before the bound, and its lease is left to run out.
			if took := time.Since(start); took != hold-every+lease {
				t.Errorf("held for %v, want %v", took, hold-every+lease)
			}
		})
	}
}

// The lease of an extension runs from its call: that its answer came late must not make it longer.
func TestSlowExtensionCountsFromItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = every - off
		s := newAble()
		s.disturb = func(_ context.Context, op string, n int) (error, error) {
			switch {
			case op != "extend":
			case n == 1:
				time.Sleep(slow)
			default:
				return errLink, nil
			}
			return nil, nil
		}
		start := time.Now()
		_, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", working(time.Hour))
		if took := time.Since(start); took != every+lease || !errors.Is(err, consume.ErrClaimLost) {
			t.Errorf("stopped after %v, want %v; %v", took, every+lease, err)
		}
	})
}

// The store ignored the time-out and prolonged the claim after all: the handler has been told that it is over, and a
// claim that nobody works under must not be held on to.
func TestExtensionThatComesTooLateIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		s.disturb = func(_ context.Context, op string, _ int) (error, error) {
			if op == "extend" {
				time.Sleep(lease - every/2) // answered after the first lease, before the end of its own
			}
			return nil, nil
		}
		result, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", func(ctx context.Context, _ consume.Claim) error {
			<-ctx.Done()
			time.Sleep(5 * lease) // winding up takes its time
			return context.Cause(ctx)
		})
		want(t, result, err, model.ResultInFlight, consume.ErrClaimLost)
		if s.count("extend") != 1 {
			t.Errorf("calls %v", s.called())
		}
	})
}

// The claim is found to be older than the call that asked again: its lease is nearer to its end.
func TestClaimThatWasAskedForAgainHasTheRestOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		s.disturb = func(_ context.Context, op string, n int) (refuse, lose error) {
			switch {
			case op == "extend":
				return errLink, nil
			case n == 1:
				return nil, errLink
			}
			return nil, nil
		}
		start := time.Now()
		_, err := beating(t, s, consume.Options{}).Deliver(t.Context(), "m", working(time.Hour))
		again, ok := consume.Again(err)
		if !ok {
			t.Fatal(err)
		}
		time.Sleep(2*every + off)
		result, err := again.Deliver(t.Context(), "m", working(time.Hour))
		want(t, result, err, model.ResultInFlight, consume.ErrClaimLost)
		if took := time.Since(start); took != lease {
			t.Errorf("stopped after %v, want %v", took, lease)
		}
	})
}

func TestWithoutTheOptionNothingIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		result, err := newLoop(t, s, consume.Options{}).Deliver(t.Context(), "m", working(2*lease))
		want(t, result, err, model.ResultApplied)
		if s.count("extend") != 0 {
			t.Errorf("calls %v", s.called())
		}
	})
}

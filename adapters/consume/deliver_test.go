package consume_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/model"
)

func TestLeaseOfZeroOrLessIsThirtySeconds(t *testing.T) {
	for _, given := range []time.Duration{0, -1, -time.Hour} {
		s, c := newAble(), newClock()
		l := newLoop(t, s, consume.Options{Now: c.Now, Lease: given})
		_, err := l.Deliver(t.Context(), "m", counted(new(int), errBoom))
		if got := s.record("m").LeaseUntil; !got.Equal(epoch.Add(30*time.Second)) || !errors.Is(err, errBoom) {
			t.Errorf("lease %v: until %v, %v", given, got, err)
		}
	}
}

func TestCompletionIsTimedAfterTheHandler(t *testing.T) {
	finish := func(c *clock) { c.advance(20 * time.Second) }
	for name, deliver := range map[string]func(l *consume.Loop, c *clock) error{
		"complete": func(l *consume.Loop, c *clock) error {
			_, err := l.Deliver(t.Context(), "m", func(context.Context, consume.Claim) error { finish(c); return nil })
			return err
		},
		"result": func(l *consume.Loop, c *clock) error {
			_, _, err := l.DeliverResult(t.Context(), "m", func(context.Context, consume.Claim) ([]byte, error) { finish(c); return nil, nil })
			return err
		},
		"effect": func(l *consume.Loop, c *clock) error {
			_, err := l.DeliverEffect(t.Context(), "m", func(context.Context, consume.Claim) (e model.Effect, _ error) { finish(c); return e, nil })
			return err
		},
		"bury": func(l *consume.Loop, c *clock) error {
			_, err := l.Deliver(t.Context(), "m", func(_ context.Context, claim consume.Claim) error {
				finish(c)
				if !claim.Now().Equal(c.Now()) {
					t.Error("the claim's clock is not the loop's")
				}
				return errBoom
			})
			if errors.Is(err, consume.ErrBuried) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newAble(), newClock()
			l := newLoop(t, spied{s, func(now time.Time) {
				if !now.Equal(epoch.Add(20 * time.Second)) {
					t.Errorf("finished at %v, want 20 s after the claim", now.Sub(epoch))
				}
			}}, consume.Options{Now: c.Now, BuryAfter: 1})
			if err := deliver(l, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// spied tells the instant of every call that ends a claim.
type spied struct {
	*able
	at func(now time.Time)
}

func (s spied) CompleteClaim(ctx context.Context, c, id string, claim model.Record, now time.Time) error {
	s.at(now)
	return s.able.CompleteClaim(ctx, c, id, claim, now)
}

func (s spied) CompleteResult(ctx context.Context, c, id string, claim model.Record, now time.Time, r []byte) error {
	s.at(now)
	return s.able.CompleteResult(ctx, c, id, claim, now, r)
}

func (s spied) CommitEffect(ctx context.Context, c, id string, claim model.Record, now time.Time, e model.Effect) error {
	s.at(now)
	return s.able.CommitEffect(ctx, c, id, claim, now, e)
}

func (s spied) Bury(ctx context.Context, c, id string, claim model.Record, now time.Time, why string) error {
	s.at(now)
	return s.able.Bury(ctx, c, id, claim, now, why)
}

func TestInFlightTellsWhenToComeBack(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now})
	_, err := l.Deliver(t.Context(), "m", counted(new(int), errBoom))
	isNot(t, err, consume.ErrInFlight)
	result, err := l.Deliver(t.Context(), "m", counted(new(int), nil))
	want(t, result, err, model.ResultInFlight, consume.ErrInFlight)
	var held *consume.InFlightError
	if !errors.As(err, &held) || !held.Record.LeaseUntil.Equal(epoch.Add(lease)) || held.Record.Attempts != 1 {
		t.Errorf("in flight: %+v", held)
	}
	for record, text := range map[*model.Record]string{
		{Attempts: 2, LeaseUntil: epoch}: "consume: message is in flight (attempt 2, lease until 2024-05-06 07:08:09 +0000 UTC)",
		{}:                               "consume: message is in flight",
		{Attempts: 2}:                    "consume: message is in flight (attempt 2)",
	} {
		if got := (&consume.InFlightError{Record: *record}).Error(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// A store may answer a refusal with less than the whole record. Only DONE and DEAD end a message.
func TestOnlyDoneAndDeadAreAcknowledged(t *testing.T) {
	for state, wanted := range map[model.State]model.Result{
		model.Absent: model.ResultInFlight, model.Processing: model.ResultInFlight, "done": model.ResultInFlight,
		model.Done: model.ResultDuplicate, model.Dead: model.ResultBuried,
	} {
		calls := 0
		l := newLoop(t, answering{model.Record{State: state}, false}, consume.Options{})
		result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
		if result != wanted || errors.Is(err, consume.ErrInFlight) != (wanted == model.ResultInFlight) || calls != 0 {
			t.Errorf("%q: result %d, %v, %d calls", state, result, err, calls)
		}
	}
	for _, state := range []model.State{model.Done, model.Dead} {
		calls := 0
		l := newLoop(t, answering{model.Record{State: state}, true}, consume.Options{})
		result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
		if result != model.ResultInFlight || err == nil || calls != 0 {
			t.Errorf("claimed and %s: result %d, %v, %d calls", state, result, err, calls)
		}
	}
}

// answering is a store whose Begin has one answer.
type answering struct {
	record  model.Record
	claimed bool
}

func (a answering) Begin(context.Context, string, string, time.Time, time.Duration) (model.Record, bool, error) {
	return a.record, a.claimed, nil
}
func (answering) Complete(context.Context, string, string, time.Time) error { return nil }
func (answering) Prune(context.Context, time.Time) (int, error)             { return 0, nil }

func TestHandlerErrorLeavesTheLeaseAlone(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now})
	for _, failure := range []error{errBoom, consume.Unapplied(errBoom)} {
		id := fmt.Sprintf("%T", failure)
		result, err := l.Deliver(t.Context(), id, counted(new(int), failure))
		want(t, result, err, model.ResultInFlight, errBoom)
		isNot(t, err, consume.ErrUnrecorded, consume.ErrClaimLost)
		if r := s.record(id); r.State != model.Processing || !r.LeaseUntil.Equal(epoch.Add(lease)) {
			t.Errorf("%s: record %+v", id, r)
		}
	}
	if got := fmt.Sprint(s.called()); got != "[begin-as begin-as]" {
		t.Errorf("calls %s", got)
	}
}

func TestPanicGoesThroughAndLeavesTheLeaseAlone(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now, BuryAfter: 3, RetryIn: func(int) time.Duration { return 0 }})
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, _ = l.Deliver(t.Context(), "m", func(context.Context, consume.Claim) error { panic("boom") })
	}()
	if got := fmt.Sprint(s.called()); got != "[begin-as]" {
		t.Errorf("calls %s", got)
	}
	c.advance(lease)
	result, err := l.Deliver(t.Context(), "m", counted(new(int), nil))
	want(t, result, err, model.ResultApplied)
}

func TestStoreThatCannotBeAskedRunsNothing(t *testing.T) {
	for name, failure := range map[string]error{"unknown": errLink, "not applied": model.NoEffect(errLink)} {
		t.Run(name, func(t *testing.T) {
			s, calls := newAble(), 0
			s.disturb = at("begin-as", 0, failure, nil)
			result, err := newLoop(t, s, consume.Options{}).Deliver(t.Context(), "m", counted(&calls, nil))
			want(t, result, err, model.ResultInFlight, errLink)
			if calls != 0 || s.count("begin-as") != 1 {
				t.Errorf("%d handler calls, %d begins", calls, s.count("begin-as"))
			}
			if _, ok := consume.Again(err); ok != (name == "unknown") {
				t.Errorf("may ask again: %v", ok)
			}
		})
	}
}

func TestLostCompletionIsNeverApplied(t *testing.T) {
	for name, c := range map[string]struct {
		refuse, lose error
		redelivered  model.Result
		calls        int
	}{
		"reply lost":   {nil, errLink, model.ResultDuplicate, 1},
		"request lost": {errLink, nil, model.ResultApplied, 2}, // at least once: the cure is one transaction
		"refused":      {model.NoEffect(errLink), nil, model.ResultApplied, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock, calls := newAble(), newClock(), 0
			s.disturb = at("complete-claim", 1, c.refuse, c.lose)
			l := newLoop(t, s, consume.Options{Now: clock.Now})
			result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
			want(t, result, err, model.ResultInFlight, errLink, consume.ErrUnrecorded)
			isNot(t, err, consume.ErrClaimLost)
			if n := s.count("complete-claim"); n != 1 {
				t.Errorf("%d completions, want 1: the loop repeats no call", n)
			}
			clock.advance(lease)
			result, err = l.Deliver(t.Context(), "m", counted(&calls, nil))
			want(t, result, err, c.redelivered)
			if calls != c.calls {
				t.Errorf("%d handler calls, want %d", calls, c.calls)
			}
		})
	}
}

// overtaken is a handler that stalls past its lease, while another delivery takes over.
func overtaken(t *testing.T, s model.Store, c *clock) func(context.Context, consume.Claim) error {
	return func(ctx context.Context, claim consume.Claim) error {
		c.advance(lease)
		if _, claimed, err := s.Begin(ctx, claim.Consumer, claim.MessageID, c.Now(), lease); !claimed || err != nil {
			t.Errorf("takeover: %v, %v", claimed, err)
		}
		return nil
	}
}

func TestLostClaimIsNeverAppliedAndLeavesTheNewOwnerAlone(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now})
	result, err := l.Deliver(t.Context(), "m", overtaken(t, s, c))
	want(t, result, err, model.ResultInFlight, consume.ErrClaimLost, consume.ErrUnrecorded, model.ErrFenced)
	if r := s.record("m"); r.State != model.Processing || r.Attempts != 2 || r.Token != "2" {
		t.Errorf("the new owner's record is %+v", r)
	}
	if got := fmt.Sprint(s.called()); got != "[begin-as begin complete-claim]" {
		t.Errorf("calls %s", got)
	}
}

func TestForgottenRecordIsALostClaim(t *testing.T) {
	s, c := newAble(), newClock()
	for _, store := range []model.Store{s, struct{ model.Store }{s}} {
		l := newLoop(t, store, consume.Options{Now: c.Now})
		result, err := l.Deliver(t.Context(), "m", func(context.Context, consume.Claim) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.records, "m") // completed by a successor, and pruned
			return nil
		})
		want(t, result, err, model.ResultInFlight, consume.ErrClaimLost, consume.ErrUnrecorded)
	}
}

// What a store without fencing cannot know, the loop does not make up.
func TestUnfencedStoreTakesALateCompletion(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, struct{ model.Store }{s}, consume.Options{Now: c.Now})
	result, err := l.Deliver(t.Context(), "m", overtaken(t, s, c))
	want(t, result, err, model.ResultApplied)
	if got := fmt.Sprint(s.called()); got != "[begin begin complete]" {
		t.Errorf("calls %s", got)
	}
}

func TestShutdownAfterTheEffectStillCompletes(t *testing.T) {
	s, calls := newAble(), 0
	s.disturb = func(ctx context.Context, _ string, _ int) (error, error) { return ctx.Err(), nil }
	l := newLoop(t, s, consume.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	result, err := l.Deliver(ctx, "m", func(ctx context.Context, _ consume.Claim) error {
		calls++
		cancel()
		<-ctx.Done() // the handler hears of it
		return nil   // and had been faster
	})
	want(t, result, err, model.ResultApplied)
	result, err = l.Deliver(t.Context(), "m", counted(&calls, nil))
	want(t, result, err, model.ResultDuplicate)
	if calls != 1 {
		t.Errorf("%d handler calls", calls)
	}
}

func TestCompletionThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAble()
		s.disturb = func(ctx context.Context, op string, _ int) (error, error) {
			if op != "complete-claim" {
				return nil, nil
			}
			<-ctx.Done()
			return ctx.Err(), nil
		}
		start := time.Now()
		result, err := newLoop(t, s, consume.Options{FinishWithin: 3 * time.Second}).Deliver(t.Context(), "m", counted(new(int), nil))
		want(t, result, err, model.ResultInFlight, context.DeadlineExceeded, consume.ErrUnrecorded)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestHandlersContextEndsWithItsDelivery(t *testing.T) {
	var left context.Context
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	l := newLoop(t, newAble(), consume.Options{})
	_, err := l.Deliver(ctx, "m", func(ctx context.Context, _ consume.Claim) error {
		left = ctx
		return ctx.Err()
	})
	if err != nil || left.Err() == nil || left.Value(key{}) != "v" {
		t.Errorf("%v; afterwards %v, value %v", err, left.Err(), left.Value(key{}))
	}
}

// The claim was granted, but its answer took longer than the lease: somebody else may hold the message by now.
func TestAnswerAfterTheLeaseRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, calls := newAble(), 0
		s.disturb = func(_ context.Context, op string, n int) (error, error) {
			if op == "begin-as" && n == 1 {
				time.Sleep(lease) // virtual: the bubble's clock
			}
			return nil, nil
		}
		l := newLoop(t, s, consume.Options{Lease: lease})
		result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
		want(t, result, err, model.ResultInFlight, consume.ErrClaimLost)
		isNot(t, err, consume.ErrUnrecorded)
		if calls != 0 {
			t.Error("the handler ran")
		}
	})
}

func TestResultIsReplayedToDuplicates(t *testing.T) {
	for name, wanted := range map[string][]byte{
		"nil": nil, "empty": {}, "zero": []byte("0"), "null": []byte("null"), "invalid UTF-8": {0xff, 0, 0xfe},
		"1 MiB": bytes.Repeat([]byte("x"), 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			s, calls := newAble(), 0
			l := newLoop(t, s, consume.Options{})
			for _, r := range []model.Result{model.ResultApplied, model.ResultDuplicate, model.ResultDuplicate} {
				got, result, err := l.DeliverResult(t.Context(), "m", func(context.Context, consume.Claim) ([]byte, error) {
					calls++
					return wanted, nil
				})
				want(t, result, err, r)
				if !bytes.Equal(got, wanted) {
					t.Errorf("%d bytes, want %d", len(got), len(wanted))
				}
			}
			if calls != 1 {
				t.Errorf("%d handler calls", calls)
			}
		})
	}
	t.Run("an error has no result", func(t *testing.T) {
		s := newAble()
		s.disturb = at("complete-result", 1, nil, errLink)
		got, result, err := newLoop(t, s, consume.Options{}).DeliverResult(t.Context(), "m", func(context.Context, consume.Claim) ([]byte, error) {
			return []byte("r"), nil
		})
		want(t, result, err, model.ResultInFlight, errLink, consume.ErrUnrecorded)
		if got != nil {
			t.Errorf("result %q", got)
		}
	})
}

func TestEffectAndDoneAreOne(t *testing.T) {
	handler := func(_ context.Context, claim consume.Claim) (model.Effect, error) {
		return model.Effect{ID: claim.Record.Token, Amount: 5}, nil
	}
	for name, c := range map[string]struct{ refuse, lose error }{
		"whole": {}, "reply lost": {nil, errLink}, "request lost": {errLink, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newAble(), newClock()
			s.disturb = at("commit-effect", 1, c.refuse, c.lose)
			l := newLoop(t, s, consume.Options{Now: clock.Now})
			_, err := l.DeliverEffect(t.Context(), "m", handler)
			if failed := c.refuse != nil || c.lose != nil; failed != (err != nil) {
				t.Error(err)
			}
			isNot(t, err, consume.ErrUnrecorded)
			clock.advance(lease)
			if _, err := l.DeliverEffect(t.Context(), "m", handler); err != nil || len(s.ledger) != 1 {
				t.Errorf("%v, %d effects, want 1", err, len(s.ledger))
			}
		})
	}
	t.Run("overtaken", func(t *testing.T) {
		s, clock := newAble(), newClock()
		l := newLoop(t, s, consume.Options{Now: clock.Now})
		result, err := l.DeliverEffect(t.Context(), "m", func(ctx context.Context, claim consume.Claim) (e model.Effect, _ error) {
			return e, overtaken(t, s, clock)(ctx, claim)
		})
		want(t, result, err, model.ResultInFlight, consume.ErrClaimLost)
		isNot(t, err, consume.ErrUnrecorded)
		if len(s.ledger) != 0 {
			t.Errorf("%d effects of a lost claim", len(s.ledger))
		}
	})
}

func TestHandlerThatCommitsByItselfIsNotCompletedAgain(t *testing.T) {
	s, calls := newAble(), 0
	l := newLoop(t, s, consume.Options{})
	for _, r := range []model.Result{model.ResultApplied, model.ResultDuplicate} {
		result, err := l.DeliverCommitted(t.Context(), "m", func(ctx context.Context, claim consume.Claim) error {
			calls++
			return s.CommitEffect(ctx, claim.Consumer, claim.MessageID, claim.Record, claim.Now(), model.Effect{ID: "e"})
		})
		want(t, result, err, r)
	}
	if got := fmt.Sprint(s.called()); got != "[begin-as commit-effect begin-as]" || calls != 1 || len(s.ledger) != 1 {
		t.Errorf("calls %s, %d handler calls, %d effects", got, calls, len(s.ledger))
	}
}

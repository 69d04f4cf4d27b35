package consume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/model"
)

func at0(int) time.Duration { return 0 }

func TestNewSaysWhatIsWrong(t *testing.T) {
	bare := struct{ model.Store }{newAble()}
	for _, c := range []struct {
		store    model.Store
		consumer string
		o        consume.Options
		names    string
		is       error
	}{
		{nil, "c", consume.Options{}, "store", nil},
		{bare, "", consume.Options{}, "consumer", model.ErrRefused},
		{bare, "c", consume.Options{RetryIn: at0}, "RetryIn", errors.ErrUnsupported},
		{bare, "c", consume.Options{BuryAfter: 1}, "BuryAfter", errors.ErrUnsupported},
		{bare, "c", consume.Options{Heartbeat: time.Second}, "Heartbeat", errors.ErrUnsupported},
		{newAble(), "c", consume.Options{BuryAfter: -1}, "BuryAfter", nil},
		{newAble(), "c", consume.Options{Heartbeat: -1}, "Heartbeat", nil},
		{newAble(), "c", consume.Options{Heartbeat: 15*time.Second + 1}, "Heartbeat", nil},
		{newAble(), "c", consume.Options{Heartbeat: time.Second, HoldAtMost: lease - 1}, "HoldAtMost", nil},
		{newAble(), "c", consume.Options{HoldAtMost: lease}, "HoldAtMost", nil},
	} {
		l, err := consume.New(c.store, c.consumer, c.o)
		if l != nil || err == nil || !strings.HasPrefix(err.Error(), "consume: new: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, %v", c.names, l, err)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %q", c.names, err, c.is)
		}
	}
}

func TestCapabilitiesAreThoseOfTheStoreThatNewWasGiven(t *testing.T) {
	s := newAble()
	for wanted, store := range map[string]model.Store{
		"none": struct{ model.Store }{s},
		"Fencer": struct {
			model.Store
			model.Fencer
		}{s, s},
		"Rebeginner, Fencer, EffectCommitter, ResultKeeper, Extender, Releaser, DeadLetterer": s,
	} {
		if got := newLoop(t, store, consume.Options{}).Capabilities().String(); got != wanted {
			t.Errorf("found %q, want %q", got, wanted)
		}
	}
}

func TestBadInputAsksAndRunsNothing(t *testing.T) {
	s := newAble()
	l, bare := newLoop(t, s, consume.Options{}), newLoop(t, struct{ model.Store }{s}, consume.Options{})
	calls := 0
	result := func(context.Context, consume.Claim) ([]byte, error) { calls++; return nil, nil }
	effect := func(context.Context, consume.Claim) (e model.Effect, err error) { calls++; return e, nil }
	for name, c := range map[string]struct {
		deliver func() (model.Result, error)
		is      error
	}{
		"empty id":              {func() (model.Result, error) { return l.Deliver(t.Context(), "", counted(&calls, nil)) }, model.ErrRefused},
		"no handler":            {func() (model.Result, error) { return l.Deliver(t.Context(), "m", nil) }, model.ErrRefused},
		"no committing handler": {func() (model.Result, error) { return l.DeliverCommitted(t.Context(), "m", nil) }, model.ErrRefused},
		"no effect handler":     {func() (model.Result, error) { return l.DeliverEffect(t.Context(), "m", nil) }, model.ErrRefused},
		"no result handler":     {func() (model.Result, error) { _, r, err := l.DeliverResult(t.Context(), "m", nil); return r, err }, model.ErrRefused},
		"no ResultKeeper":       {func() (model.Result, error) { _, r, err := bare.DeliverResult(t.Context(), "m", result); return r, err }, errors.ErrUnsupported},
		"no EffectCommitter":    {func() (model.Result, error) { return bare.DeliverEffect(t.Context(), "m", effect) }, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := c.deliver()
			want(t, result, err, model.ResultInFlight, c.is)
		})
	}
	if calls != 0 || len(s.called()) != 0 {
		t.Errorf("%d handler calls, store calls %v", calls, s.called())
	}
}

func TestLostClaimAnswerIsAskedAgainByTheSameDeliveryAlone(t *testing.T) {
	s, c := newAble(), newClock()
	s.disturb = at("begin-as", 1, nil, errLink)
	l := newLoop(t, s, consume.Options{Now: c.Now})
	calls := 0
	result, first := l.Deliver(t.Context(), "m", counted(&calls, nil))
	want(t, result, first, model.ResultInFlight, errLink)

	result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
	want(t, result, err, model.ResultInFlight, consume.ErrInFlight) // another delivery, another nonce
	if _, ok := consume.Again(err); ok {
		t.Error("a refusal may ask again")
	}
	if _, ok := consume.Again(fmt.Errorf("handler: %w", first)); ok {
		t.Error("an error from somewhere inside may ask again")
	}
	if _, ok := consume.Again(nil); ok {
		t.Error("nil may ask again")
	}

	again, ok := consume.Again(first)
	if !ok {
		t.Fatal("may not ask again")
	}
	result, err = again.Deliver(t.Context(), "other", counted(&calls, nil))
	want(t, result, err, model.ResultInFlight, model.ErrRefused)
	c.advance(lease - 1)
	result, err = again.Deliver(t.Context(), "m", counted(&calls, nil))
	want(t, result, err, model.ResultApplied)
	if calls != 1 || s.record("m").Attempts != 1 {
		t.Errorf("%d handler calls, record %+v: want the lost claim itself", calls, s.record("m"))
	}
	for range 2 { // one claim has one owner
		other, _ := consume.Again(first)
		result, err = other.Deliver(t.Context(), "m", counted(&calls, nil))
		want(t, result, err, model.ResultInFlight, model.ErrRefused)
	}
}

func TestAskingAgainMayBeLostToo(t *testing.T) {
	s, calls := newAble(), 0
	s.disturb = func(_ context.Context, op string, n int) (error, error) {
		if op == "begin-as" && n < 3 {
			return nil, errLink
		}
		return nil, nil
	}
	l := newLoop(t, s, consume.Options{})
	for {
		result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
		again, ok := consume.Again(err)
		if !ok {
			want(t, result, err, model.ResultApplied)
			break
		}
		l = again
	}
	if s.count("begin-as") != 3 || calls != 1 {
		t.Errorf("calls %v, %d handler calls", s.called(), calls)
	}
}

func TestAskingAgainNeedsARebeginner(t *testing.T) {
	s := newAble()
	s.disturb = at("begin", 1, nil, errLink)
	_, err := newLoop(t, struct{ model.Store }{s}, consume.Options{}).Deliver(t.Context(), "m", counted(new(int), nil))
	if _, ok := consume.Again(err); ok || err == nil {
		t.Errorf("may ask again: %v, %v", ok, err)
	}
}

// One worker, two deliveries of one message at once: were the nonce the worker's name, both would own the claim.
func TestNonceIsOneDelivery(t *testing.T) {
	l := newLoop(t, newAble(), consume.Options{})
	result, err := l.Deliver(t.Context(), "m", func(ctx context.Context, _ consume.Claim) error {
		inner, err := l.Deliver(ctx, "m", counted(new(int), nil))
		want(t, inner, err, model.ResultInFlight, consume.ErrInFlight)
		return nil
	})
	want(t, result, err, model.ResultApplied)
}

func TestFastRetryReleasesOnlyWhatTheHandlerVouchesFor(t *testing.T) {
	const wait = 5 * time.Second
	inner := consume.Unapplied(errLink)
	for name, c := range map[string]struct {
		failure  error
		released bool
	}{
		"vouched for":          {consume.Unapplied(errBoom), true},
		"not a word":           {errBoom, false},
		"a proof of one call":  {model.NoEffect(errBoom), false},
		"fenced elsewhere":     {model.ErrFenced, false},
		"after an inner call":  {fmt.Errorf("charged; then: %w", inner), false},
		"joined with a proof":  {errors.Join(errBoom, inner), false},
		"vouched for, wrapped": {consume.Unapplied(fmt.Errorf("rejected: %w", errBoom)), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newAble(), newClock()
			l := newLoop(t, s, consume.Options{Now: clock.Now, RetryIn: func(attempts int) time.Duration {
				if attempts != 1 {
					t.Errorf("attempts %d", attempts)
				}
				return wait
			}})
			result, err := l.Deliver(t.Context(), "m", counted(new(int), c.failure))
			want(t, result, err, model.ResultInFlight, c.failure)
			until, why := epoch.Add(lease), ""
			if c.released {
				until, why = epoch.Add(wait), c.failure.Error()
			}
			if r := s.record("m"); !r.LeaseUntil.Equal(until) || r.Reason != why || r.State != model.Processing {
				t.Errorf("record %+v", r)
			}
			clock.advance(wait)
			result, _ = l.Deliver(t.Context(), "m", func(context.Context, consume.Claim) error { return nil })
			if (result == model.ResultApplied) != c.released {
				t.Errorf("after the wait: result %d", result)
			}
		})
	}
	if consume.Unapplied(nil) != nil {
		t.Error("Unapplied(nil) is an error")
	}
}

func TestReleaseIntoThePastIsAtOnce(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now, RetryIn: func(int) time.Duration { return -time.Hour }})
	_, err := l.Deliver(t.Context(), "m", counted(new(int), consume.Unapplied(errBoom)))
	if r := s.record("m"); !r.LeaseUntil.Equal(epoch) || !errors.Is(err, errBoom) {
		t.Errorf("visible at %v, %v", r.LeaseUntil, err)
	}
}

func TestFailedReleaseIsToldBesideTheFailure(t *testing.T) {
	for _, refusal := range []error{errLink, model.ErrFenced} {
		s := newAble()
		s.disturb = at("release", 1, refusal, nil)
		l := newLoop(t, s, consume.Options{RetryIn: at0})
		result, err := l.Deliver(t.Context(), "m", counted(new(int), consume.Unapplied(errBoom)))
		want(t, result, err, model.ResultInFlight, errBoom, refusal)
		if errors.Is(err, consume.ErrClaimLost) != (refusal == model.ErrFenced) || s.count("release") != 1 {
			t.Errorf("%v, calls %v", err, s.called())
		}
	}
}

func TestPoisonIsBuriedAtItsLastAttempt(t *testing.T) {
	s, c := newAble(), newClock()
	l := newLoop(t, s, consume.Options{Now: c.Now, BuryAfter: 3, RetryIn: at0})
	calls := 0
	handler := counted(&calls, consume.Unapplied(errBoom))
	for range 2 {
		result, err := l.Deliver(t.Context(), "m", handler)
		want(t, result, err, model.ResultInFlight, errBoom)
		isNot(t, err, consume.ErrBuried)
	}
	result, err := l.Deliver(t.Context(), "m", handler)
	want(t, result, err, model.ResultBuried, errBoom, consume.ErrBuried) // once, somebody hears of it
	if r := s.record("m"); r.State != model.Dead || r.Reason != "boom" {
		t.Errorf("record %+v", r)
	}
	result, err = l.Deliver(t.Context(), "m", handler)
	want(t, result, err, model.ResultBuried)
	if calls != 3 || s.count("release") != 2 {
		t.Errorf("%d handler calls, %d releases", calls, s.count("release"))
	}
}

// A message that kills its worker never fails: only its claims are counted.
func TestPoisonThatKillsItsWorkerIsBuriedUnread(t *testing.T) {
	s, c := newAble(), newClock()
	for range 2 {
		if _, claimed, err := s.Begin(t.Context(), "billing", "m", c.Now(), lease); !claimed || err != nil {
			t.Fatal(claimed, err)
		}
		c.advance(lease)
	}
	calls := 0
	l := newLoop(t, s, consume.Options{Now: c.Now, BuryAfter: 2})
	result, err := l.Deliver(t.Context(), "m", counted(&calls, nil))
	want(t, result, err, model.ResultBuried, consume.ErrBuried)
	if r := s.record("m"); r.State != model.Dead || r.Reason != "claimed 2 times and never finished" || calls != 0 {
		t.Errorf("record %+v, %d handler calls", r, calls)
	}
}

func TestBurialThatFailsIsNotAcknowledged(t *testing.T) {
	for _, refusal := range []error{errLink, model.ErrFenced} {
		s := newAble()
		s.disturb = at("bury", 1, refusal, nil)
		result, err := newLoop(t, s, consume.Options{BuryAfter: 1}).Deliver(t.Context(), "m", counted(new(int), errBoom))
		want(t, result, err, model.ResultInFlight, errBoom, refusal)
		isNot(t, err, consume.ErrBuried)
	}
}

func TestReasonFitsEveryStore(t *testing.T) {
	for name, text := range map[string]string{
		"NUL": "a\x00b", "invalid UTF-8": "a\xffb", "long": strings.Repeat("ä", 4096), "cut in a rune": "x" + strings.Repeat("ä", 4096),
	} {
		s := newAble()
		_, err := newLoop(t, s, consume.Options{BuryAfter: 1}).Deliver(t.Context(), "m", counted(new(int), errors.New(text)))
		why := s.record("m").Reason
		if !errors.Is(err, consume.ErrBuried) || why == "" || len(why) > 1024 || !utf8.ValidString(why) || strings.Contains(why, "\x00") {
			t.Errorf("%s: %d bytes, %v", name, len(why), err)
		}
	}
}

func TestEffectKeyIsTheMessagesAlone(t *testing.T) {
	seen := map[string]string{}
	for _, k := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"a", "b|c"}, {"a|b", "c"}, {"1", "1:x"}, {"11", ":x"}, {"a", "BC"}, {"a", "bc "}} {
		key := consume.Claim{Consumer: k[0], MessageID: k[1], Record: model.Record{Attempts: 1, Token: "1"}}.EffectKey()
		if again := (consume.Claim{Consumer: k[0], MessageID: k[1], Record: model.Record{Attempts: 2, Token: "9"}}).EffectKey(); key != again {
			t.Errorf("%q: another key in the second attempt", k)
		}
		if other, found := seen[key]; found || len(key) != 64 {
			t.Errorf("%q: key %s, shared with %s", k, key, other)
		}
		seen[key] = fmt.Sprint(k)
	}
}

package consume_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/model"
)

const lease = 30 * time.Second

var (
	epoch     = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	errBoom   = errors.New("boom")
	errLink   = errors.New("connection reset")
	errNobody = errors.New("nobody may call this")
)

// able is a store with every capability, whose calls a test can watch and disturb.
type able struct {
	// disturb is called before the n-th call of op, from 1. refuse: nothing happens and this is the answer. lose: it
	// happens, and this is the answer.
	disturb func(ctx context.Context, op string, n int) (refuse, lose error)

	mu      sync.Mutex
	records map[string]*kept
	issued  int
	calls   []string // as they return
	started map[string]int
	ledger  []model.Effect
}

type kept struct {
	model.Record
	nonce string
}

func newAble() *able {
	return &able{records: map[string]*kept{}, started: map[string]int{}}
}

// call runs one operation under the lock, between what disturbs it.
func (s *able) call(ctx context.Context, op string, do func() error) error {
	s.mu.Lock()
	s.started[op]++
	n := s.started[op]
	s.mu.Unlock()
	var refuse, lose error
	if s.disturb != nil {
		refuse, lose = s.disturb(ctx, op, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, op)
	if refuse != nil {
		return refuse
	}
	if err := do(); err != nil {
		return err
	}
	return lose
}

func (s *able) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[op]
}

func (s *able) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *able) record(id string) model.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[id]; r != nil {
		return r.Record
	}
	return model.Record{}
}

func (s *able) Begin(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return s.begin(ctx, "begin", id, "", now, lease)
}

func (s *able) BeginAs(ctx context.Context, consumer, id, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return s.begin(ctx, "begin-as", id, nonce, now, lease)
}

func (s *able) begin(ctx context.Context, op, id, nonce string, now time.Time, lease time.Duration) (r model.Record, claimed bool, err error) {
	err = s.call(ctx, op, func() error {
		k := s.records[id]
		switch {
		case k == nil:
			k = &kept{}
			s.records[id] = k
		case k.State != model.Processing, now.Before(k.LeaseUntil):
			r, claimed = k.Record, k.State == model.Processing && nonce != "" && nonce == k.nonce
			return nil
		}
		s.issued++
		k.nonce = nonce
		k.Record = model.Record{
			State: model.Processing, Attempts: k.Attempts + 1, Token: strconv.Itoa(s.issued),
			LeaseUntil: now.Add(lease), UpdatedAt: now, Reason: k.Reason,
		}
		r, claimed = k.Record, true
		return nil
	})
	if err != nil {
		return model.Record{}, false, err
	}
	return r, claimed, nil
}

// fenced runs do on the record of the claim.
func (s *able) fenced(ctx context.Context, op, id string, claim model.Record, do func(k *kept) error) error {
	return s.call(ctx, op, func() error {
		k := s.records[id]
		if k == nil {
			return model.ErrNotFound
		}
		if k.Token != claim.Token {
			return model.ErrFenced
		}
		return do(k)
	})
}

func finish(k *kept, now time.Time, also func()) error {
	switch k.State {
	case model.Done:
		return nil
	case model.Dead:
		return model.ErrFenced
	}
	k.State, k.LeaseUntil, k.UpdatedAt = model.Done, time.Time{}, now
	if also != nil {
		also()
	}
	return nil
}

func (s *able) Complete(ctx context.Context, consumer, id string, now time.Time) error {
	return s.call(ctx, "complete", func() error {
		if k := s.records[id]; k != nil {
			return finish(k, now, nil)
		}
		return model.ErrNotFound
	})
}

func (s *able) CompleteClaim(ctx context.Context, consumer, id string, claim model.Record, now time.Time) error {
	return s.fenced(ctx, "complete-claim", id, claim, func(k *kept) error { return finish(k, now, nil) })
}

func (s *able) CompleteResult(ctx context.Context, consumer, id string, claim model.Record, now time.Time, result []byte) error {
	return s.fenced(ctx, "complete-result", id, claim, func(k *kept) error {
		return finish(k, now, func() { k.Result = bytes.Clone(result) })
	})
}

func (s *able) CommitEffect(ctx context.Context, consumer, id string, claim model.Record, now time.Time, effect model.Effect) error {
	return s.fenced(ctx, "commit-effect", id, claim, func(k *kept) error {
		return finish(k, now, func() { s.ledger = append(s.ledger, effect) })
	})
}

func (s *able) Extend(ctx context.Context, consumer, id string, claim model.Record, now time.Time, lease time.Duration) (r model.Record, err error) {
	err = s.fenced(ctx, "extend", id, claim, func(k *kept) error {
		if k.State != model.Processing {
			return model.ErrFenced
		}
		k.LeaseUntil = now.Add(lease)
		r = k.Record
		return nil
	})
	return r, err
}

func (s *able) Release(ctx context.Context, consumer, id string, claim model.Record, now, visibleAt time.Time, reason string) error {
	return s.fenced(ctx, "release", id, claim, func(k *kept) error {
		k.LeaseUntil, k.Reason = visibleAt, reason
		return nil
	})
}

func (s *able) Bury(ctx context.Context, consumer, id string, claim model.Record, now time.Time, reason string) error {
	return s.fenced(ctx, "bury", id, claim, func(k *kept) error {
		k.State, k.LeaseUntil, k.Reason = model.Dead, time.Time{}, reason
		return nil
	})
}

func (s *able) Replay(context.Context, string, string, time.Time) error { return errNobody }
func (s *able) Prune(context.Context, time.Time) (int, error)           { return 0, errNobody }

// at disturbs the n-th call of op alone; n 0: every one.
func at(op string, n int, refuse, lose error) func(context.Context, string, int) (error, error) {
	return func(_ context.Context, is string, k int) (error, error) {
		if is == op && (n == 0 || n == k) {
			return refuse, lose
		}
		return nil, nil
	}
}

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: epoch} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newLoop(t testing.TB, store model.Store, o consume.Options) *consume.Loop {
	t.Helper()
	l, err := consume.New(store, "billing", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// counted is a handler that counts its calls and answers err.
func counted(calls *int, err error) func(context.Context, consume.Claim) error {
	return func(context.Context, consume.Claim) error {
		*calls++
		return err
	}
}

// want holds an answer against a result and the errors that it must be; none: no error.
func want(t testing.TB, result model.Result, err error, wantResult model.Result, is ...error) {
	t.Helper()
	if result != wantResult {
		t.Errorf("result %d (%v), want %d", result, err, wantResult)
	}
	if len(is) == 0 && err != nil {
		t.Errorf("unexpected error: %v", err)
	}
	for _, e := range is {
		if !errors.Is(err, e) {
			t.Errorf("error %v is not %q", err, e)
		}
	}
}

func isNot(t testing.TB, err error, not ...error) {
	t.Helper()
	for _, e := range not {
		if errors.Is(err, e) {
			t.Errorf("error %v is %q, and must not be", err, e)
		}
	}
}

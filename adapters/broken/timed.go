package broken

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The flaws of a [Timed] and of a [TTL], beside None.
const (
	SecondsForMillis Flaw = "seconds-for-milliseconds" // EX where PX was meant
	OneTTL           Flaw = "one-ttl"                  // the lock is kept as long as the record
	DeletesByKey     Flaw = "deletes-by-key"           // giving back and completing name the key, not the claim
	CallersNow       Flaw = "callers-now"              // the lease is counted from the caller's now
	TTLKept          Flaw = "ttl-kept"                 // completing does not prolong the time to live
	ExtendsShorter   Flaw = "extends-shorter"          // an extension sets the time to a default, which is shorter
	ExtendsForeign   Flaw = "extends-by-key"           // an extension asks for no claim
)

// TimedContract is what its maker knows of a [Timed] and a [TTL].
func TimedContract() model.Contract {
	return model.Contract{
		Clock: model.ServerClock, Precision: time.Millisecond, Retention: model.ByItself, LeaseIsRecord: true, NoTimes: true,
	}
}

// Timed is a home-made store in process whose records end by its own clock, as a cache's do. It is safe for concurrent
// use; see NewTimed.
type Timed struct {
	flaw    Flaw
	now     func() time.Time
	mu      sync.Mutex
	last    int
	entries map[string]*timed
}

type timed struct {
	token string
	done  bool
	until time.Time
}

// NewTimed makes a store with one flaw, or none, on a clock.
func NewTimed(flaw Flaw, now func() time.Time) *Timed {
	return &Timed{flaw: flaw, now: now, entries: map[string]*timed{}}
}

func (t *Timed) get(key string) *timed {
	e := t.entries[key]
	if e != nil && !t.now().Before(e.until) {
		delete(t.entries, key)
		return nil
	}
	return e
}

func (e *timed) record() model.Record {
	r := model.Record{State: model.Processing, Attempts: 1, Token: e.token}
	if e.done {
		r.State = model.Done
	}
	return r
}

// Begin claims.
func (t *Timed) Begin(_ context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := joined(t.flaw, consumer, id)
	if e := t.get(key); e != nil {
		return e.record(), false, nil
	}
	t.last++
	e := &timed{token: strconv.Itoa(t.last), until: t.now().Add(lease)}
	switch t.flaw {
	case SecondsForMillis:
		e.until = t.now().Add(time.Duration(lease.Milliseconds()) * time.Second)
	case OneTTL:
		e.until = t.now().Add(model.DefaultWindow)
	case CallersNow:
		e.until = now.Add(lease)
	}
	t.entries[key] = e
	return e.record(), true, nil
}

func (t *Timed) done(e *timed) {
	if e.done {
		return
	}
	e.done = true
	if t.flaw != TTLKept {
		e.until = t.now().Add(model.DefaultWindow)
	}
}

// Complete completes by key.
func (t *Timed) Complete(_ context.Context, consumer, id string, _ time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(joined(t.flaw, consumer, id))
	if e == nil {
		return model.ErrNotFound
	}
	t.done(e)
	return nil
}

func (t *Timed) own(consumer, id string, claim model.Record) (*timed, error) {
	e := t.get(joined(t.flaw, consumer, id))
	switch {
	case e == nil:
		return nil, model.ErrNotFound
	case e.token != claim.Token && t.flaw != DeletesByKey:
		return nil, model.ErrFenced
	}
	return e, nil
}

// CompleteClaim completes by claim.
func (t *Timed) CompleteClaim(_ context.Context, consumer, id string, claim model.Record, _ time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.own(consumer, id, claim)
	if err == nil {
		t.done(e)
	}
	return err
}

// Release gives a claim back: the record goes, and nothing is kept until visibleAt.
func (t *Timed) Release(_ context.Context, consumer, id string, claim model.Record, _, visibleAt time.Time, _ string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.own(consumer, id, claim)
	switch {
	case err != nil:
		return err
	case e.done:
		return model.ErrFenced
	}
	e.until = visibleAt
	return nil
}

// Extend prolongs.
func (t *Timed) Extend(_ context.Context, consumer, id string, claim model.Record, _ time.Time, lease time.Duration) (model.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flaw == ExtendsForeign {
		if e := t.get(joined(t.flaw, consumer, id)); e != nil && !e.done {
			claim.Token = e.token
		}
	}
	e, err := t.own(consumer, id, claim)
	switch {
	case err != nil:
		return model.Record{}, err
	case e.done:
		return model.Record{}, model.ErrFenced
	}
	e.until = t.now().Add(lease)
	if t.flaw == ExtendsShorter {
		e.until = t.now().Add(min(lease, time.Second))
	}
	return e.record(), nil
}

// Prune has nothing to do.
func (t *Timed) Prune(context.Context, time.Time) (int, error) { return 0, nil }

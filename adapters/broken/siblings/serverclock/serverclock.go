// Package serverclock is a right store that lives by its own clock, as a database's or a cache's does: what its
// callers think the time is counts for nothing.
package serverclock

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Kind is what right stores of this make differ in.
type Kind struct {
	Now           func() time.Time // the store's clock; nil: the machine's
	Window        time.Duration
	ByItself      bool // DONE is forgotten after Window, and Prune has nothing to do
	LeaseIsRecord bool // a claim whose lease is over is gone
	Unit          time.Duration
	RoundsUp      bool // to the unit, where the others round down
	Silent        bool // no instants are told
}

// Contract states the facts of a kind.
func (k Kind) Contract() model.Contract {
	c := model.Contract{
		Clock: model.ServerClock, Precision: k.Unit, MinLease: k.Unit, Window: k.Window, NoTimes: k.Silent,
		LeaseIsRecord: k.LeaseIsRecord,
	}
	if k.Window > 0 {
		c.Redelivery = k.Window / 2
	}
	if k.ByItself {
		c.Retention = model.ByItself
	}
	return c
}

type id struct{ consumer, message string }

type entry struct {
	claim    int
	attempts int
	until    time.Time
	since    time.Time
	done     bool
	reason   string
}

// Server is the store. It is safe for concurrent use; create it with New.
type Server struct {
	kind    Kind
	mu      sync.Mutex
	claims  int
	entries map[id]*entry
}

// New returns an empty server.
func New(kind Kind) *Server {
	if kind.Now == nil {
		kind.Now = time.Now
	}
	if kind.Window == 0 {
		kind.Window = model.DefaultWindow
	}
	return &Server{kind: kind, entries: map[id]*entry{}}
}

// enter waits for the store: a server is a way off, and others get there in the meantime.
func (s *Server) enter() {
	runtime.Gosched()
	s.mu.Lock()
}

func (s *Server) time() time.Time { return s.stored(s.kind.Now().UTC()) }

func (s *Server) stored(t time.Time) time.Time {
	u := s.kind.Unit
	if u == 0 {
		return t
	}
	down := t.Truncate(u)
	if s.kind.RoundsUp && down.Before(t) {
		return down.Add(u)
	}
	return down
}

// at looks an entry up, after dropping it if its time is over.
func (s *Server) at(k id, now time.Time) *entry {
	e := s.entries[k]
	if e == nil {
		return nil
	}
	gone := e.done && s.kind.ByItself && !now.Before(e.since.Add(s.kind.Window)) ||
		!e.done && s.kind.LeaseIsRecord && !now.Before(e.until)
	if gone {
		delete(s.entries, k)
		return nil
	}
	return e
}

func (s *Server) tell(e *entry) model.Record {
	r := model.Record{State: model.Processing, Attempts: e.attempts, Token: strconv.Itoa(e.claim), Reason: e.reason}
	if e.done {
		r.State = model.Done
	}
	if !s.kind.Silent {
		r.UpdatedAt = e.since
		if !e.done {
			r.LeaseUntil = e.until
		}
	}
	return r
}

// Begin claims.
func (s *Server) Begin(ctx context.Context, consumer, message string, _ time.Time, lease time.Duration) (model.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return model.Record{}, false, err
	}
	if lease <= 0 || lease < s.kind.Unit {
		return model.Record{}, false, errors.New("serverclock: lease is too short")
	}
	s.enter()
	defer s.mu.Unlock()
	now, k := s.time(), id{consumer, message}
	e := s.at(k, now)
	switch {
	case e == nil:
		e = &entry{}
		s.entries[k] = e
	case e.done, now.Before(e.until):
		return s.tell(e), false, nil
	}
	s.claims++
	*e = entry{claim: s.claims, attempts: e.attempts + 1, until: now.Add(lease), since: now}
	return s.tell(e), true, nil
}

var errAbsent = errors.New("serverclock: nothing is known of this message")

// Complete completes by key.
func (s *Server) Complete(_ context.Context, consumer, message string, _ time.Time) error {
	s.enter()
	defer s.mu.Unlock()
	now := s.time()
	e := s.at(id{consumer, message}, now)
	if e == nil {
		return errAbsent
	}
	if !e.done {
		e.done, e.since, e.until = true, now, time.Time{}
	}
	return nil
}

// Prune forgets, where forgetting is not the store's own.
func (s *Server) Prune(_ context.Context, before time.Time) (int, error) {
	s.enter()
	defer s.mu.Unlock()
	if s.kind.ByItself {
		return 0, nil
	}
	n := 0
	for k, e := range s.entries {
		if e.done && e.since.Before(before) {
			delete(s.entries, k)
			n++
		}
	}
	return n, nil
}

// Full is a server with all that a claim's owner may ask for.
type Full struct{ *Server }

func (f Full) own(k id, claim model.Record, now time.Time) (*entry, error) {
	e := f.at(k, now)
	if e == nil {
		return nil, model.ErrNotFound
	}
	if claim.Token != strconv.Itoa(e.claim) {
		return nil, model.ErrFenced
	}
	return e, nil
}

// CompleteClaim completes by claim.
func (f Full) CompleteClaim(_ context.Context, consumer, message string, claim model.Record, _ time.Time) error {
	f.enter()
	defer f.mu.Unlock()
	now := f.time()
	e, err := f.own(id{consumer, message}, claim, now)
	if err != nil || e.done {
		return err
	}
	e.done, e.since, e.until = true, now, time.Time{}
	return nil
}

// Extend prolongs.
func (f Full) Extend(_ context.Context, consumer, message string, claim model.Record, _ time.Time, lease time.Duration) (model.Record, error) {
	f.enter()
	defer f.mu.Unlock()
	now := f.time()
	e, err := f.own(id{consumer, message}, claim, now)
	switch {
	case err != nil:
		return model.Record{}, err
	case e.done || !now.Before(e.until):
		return model.Record{}, model.ErrFenced
	}
	e.until = now.Add(lease)
	return f.tell(e), nil
}

// Release gives a claim back.
func (f Full) Release(_ context.Context, consumer, message string, claim model.Record, _, visibleAt time.Time, reason string) error {
	f.enter()
	defer f.mu.Unlock()
	now, k := f.time(), id{consumer, message}
	e, err := f.own(k, claim, now)
	switch {
	case err != nil:
		return err
	case e.done:
		return model.ErrFenced
	}
	e.until, e.reason = f.stored(visibleAt.UTC()), reason
	return nil
}

// Lookup reads.
func (f Full) Lookup(_ context.Context, consumer, message string) (model.Record, bool, error) {
	f.enter()
	defer f.mu.Unlock()
	e := f.at(id{consumer, message}, f.time())
	if e == nil {
		return model.Record{}, false, nil
	}
	return f.tell(e), true, nil
}

// Hand is the machine's clock, set forward by whoever owns it. Its zero value is ready.
type Hand struct {
	mu    sync.Mutex
	ahead time.Duration
}

// Now reads the clock.
func (h *Hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// Advance moves the clock.
func (h *Hand) Advance(_ context.Context, d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
	return nil
}

// Package memory is a message-dedup store in one process: a map and a mutex. It is the reference that the other
// stores are compared with in speed, the store to learn the contract on, and a production store where losing the
// records at a restart is acceptable.
//
// A [Space] is what a server is elsewhere; a [Handle] is one worker's access to it. Both are safe for concurrent
// use. Instants are the callers' and are kept to the nanosecond.
//
// A claim is current until somebody takes over, its lease notwithstanding: its owner may complete, extend, release or
// bury as long as nobody did. Completion and burial end it, and repeating them is ok. A release gives it up before
// somebody else has it, so that all its owner can still do is to release again. Replay makes it stale.
package memory

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Options of a Space. The zero value is ready to use.
type Options struct {
	// Capacity is how many records to make room for at once; zero: grow as they come.
	Capacity int
	_        struct{}
}

// key is a pair, never a joined string: no separator can be smuggled into a part.
type key struct{ consumer, id string }

// entry is one record as it is kept; an absent record has no entry. It stays below 128 bytes, beyond which a map keeps
// each element in an allocation of its own.
type entry struct {
	state      state
	released   bool // the owner gave the claim back, and may do nothing but that again
	hasResult  bool // tells an empty result from none
	attempts   int
	token      uint64
	nonce      string
	leaseUntil time.Time
	updatedAt  time.Time
	told       string // the result if there is one, else the reason
}

type state uint8

const (
	processing state = iota
	done
	dead
)

func (s state) word() model.State {
	return [...]model.State{processing: model.Processing, done: model.Done, dead: model.Dead}[s]
}

// Space holds the records of one namespace and the ledger of committed effects. Make it with [New].
type Space struct {
	mu      sync.Mutex
	records map[key]entry
	issued  uint64 // the last token; never goes back, so that a token names one claim for all time
	ledger  []model.Applied

	// No DONE record is older than oldest, and there are done of them: a Prune that can find nothing looks at
	// nothing. Only a Prune that removes raises oldest again.
	done   int
	oldest time.Time
}

// New makes an empty Space.
func New(o Options) *Space {
	return &Space{records: make(map[key]entry, max(o.Capacity, 0))}
}

// Open returns one worker's handle. Handles share the space and nothing else; they need no closing.
func (s *Space) Open() *Handle { return &Handle{space: s} }

// Effects returns the ledger: every committed effect, in the order of commitment.
func (s *Space) Effects() []model.Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

// Contract states the facts about this store: the strict ones, and tokens in increasing order.
func Contract() model.Contract { return model.Contract{OrderedToken: true} }

func (s *Space) begin(k key, nonce string, now time.Time, lease time.Duration) (model.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, found := s.records[k]
	if found && e.state != processing {
		return e.record(), false
	}
	if found && now.Before(e.leaseUntil) {
		return e.record(), nonce != "" && nonce == e.nonce
	}
	e = entry{
		attempts:   e.attempts + 1,
		token:      s.issue(),
		nonce:      nonce,
		leaseUntil: now.Add(lease),
		updatedAt:  now,
	}
	s.records[k] = e
	return e.record(), true
}

// issue draws the next token.
func (s *Space) issue() uint64 {
	s.issued++
	return s.issued
}

func (s *Space) complete(k key, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, found := s.records[k]
	switch {
	case !found:
		return model.ErrNotFound
	case e.state == dead:
		return model.ErrFenced
	case e.state == processing:
		s.finish(k, e, now)
	}
	return nil
}

// outcome is what a completion by claim keeps beside DONE; nil fields: nothing.
type outcome struct {
	effect *model.Effect
	result []byte
}

func (s *Space) completeClaim(k key, token string, now time.Time, o outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, err := s.held(k, token)
	if e.state == done && err == nil {
		return nil
	}
	if err = e.workable(err); err != nil {
		return err
	}
	e.told, e.hasResult = string(o.result), o.result != nil
	s.finish(k, e, now)
	if o.effect != nil {
		s.ledger = append(s.ledger, model.Applied{Consumer: k.consumer, MessageID: k.id, Effect: *o.effect})
	}
	return nil
}

// held answers the record whose latest claim bears the token.
func (s *Space) held(k key, token string) (entry, error) {
	e, found := s.records[k]
	if !found {
		return entry{}, model.ErrNotFound
	}
	if token != strconv.FormatUint(e.token, 10) {
		return entry{}, model.ErrFenced
	}
	return e, nil
}

// workable passes an error on, or refuses a claim that its owner has ended or given back.
func (e entry) workable(err error) error {
	if err == nil && (e.state != processing || e.released) {
		return model.ErrFenced
	}
	return err
}

func (s *Space) release(k key, token string, now, visibleAt time.Time, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, err := s.held(k, token)
	if err != nil {
		return err
	}
	if e.state != processing {
		return model.ErrFenced
	}
	e.released, e.told, e.leaseUntil, e.updatedAt = true, reason, visibleAt, now
	e.nonce = "" // or it would still answer as the owner
	s.records[k] = e
	return nil
}

func (s *Space) extend(k key, token string, until time.Time) (model.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, err := s.held(k, token)
	if err = e.workable(err); err != nil {
		return model.Record{}, err
	}
	if e.leaseUntil.Before(until) {
		e.leaseUntil = until
		s.records[k] = e
	}
	return e.record(), nil
}

func (s *Space) bury(k key, token string, now time.Time, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, err := s.held(k, token)
	if e.state == dead && err == nil {
		return nil
	}
	if err = e.workable(err); err != nil {
		return err
	}
	e.state, e.told, e.leaseUntil, e.updatedAt, e.nonce = dead, reason, time.Time{}, now, ""
	s.records[k] = e
	return nil
}

// replay opens a dead letter under a token that nobody is told, which makes every earlier claim stale.
func (s *Space) replay(k key, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, found := s.records[k]
	if !found {
		return model.ErrNotFound
	}
	if e.state != dead {
		return fmt.Errorf("the record is %s, not DEAD: %w", e.state.word(), model.ErrRefused)
	}
	s.records[k] = entry{attempts: e.attempts, token: s.issue(), leaseUntil: now, updatedAt: now}
	return nil
}

// finish makes a PROCESSING entry DONE. The token stays, so that its owner may repeat the completion.
func (s *Space) finish(k key, e entry, now time.Time) {
	if !e.hasResult {
		e.told = "" // the reason of a release
	}
	e.state, e.leaseUntil, e.updatedAt = done, time.Time{}, now
	s.records[k] = e
	if s.done == 0 || now.Before(s.oldest) {
		s.oldest = now
	}
	s.done++
}

func (s *Space) prune(before time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == 0 || !s.oldest.Before(before) {
		return 0
	}

	removed := 0
	var oldest time.Time
	for k, e := range s.records {
		switch {
		case e.state != done:
		case e.updatedAt.Before(before):
			delete(s.records, k)
			removed++
		case oldest.IsZero() || e.updatedAt.Before(oldest):
			oldest = e.updatedAt
		}
	}
	s.done -= removed
	s.oldest = oldest
	return removed
}

func (s *Space) lookup(k key) (model.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, found := s.records[k]
	if !found {
		return model.Record{}, false
	}
	return e.record(), true
}

func (e entry) record() model.Record {
	r := model.Record{
		State:      e.state.word(),
		Attempts:   e.attempts,
		LeaseUntil: e.leaseUntil,
		UpdatedAt:  e.updatedAt,
		Token:      strconv.FormatUint(e.token, 10),
	}
	if e.hasResult {
		r.Result = []byte(e.told)
	} else {
		r.Reason = e.told
	}
	return r
}

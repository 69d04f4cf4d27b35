// Package memory is a message-dedup store in one process: a map and a mutex. It is the reference that the other
// stores are compared with in speed, the store to learn the contract on, and a production store where losing the
// records at a restart is acceptable.
//
// A [Space] is what a server is elsewhere; a [Handle] is one worker's access to it. Both are safe for concurrent
// use. Instants are the callers' and are kept to the nanosecond.
package memory

import (
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

// entry is one record as it is kept. done tells DONE from PROCESSING; an absent record has no entry.
type entry struct {
	done       bool
	attempts   int
	token      uint64
	nonce      string
	leaseUntil time.Time
	updatedAt  time.Time
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
	if found && e.done {
		return e.record(), false
	}
	if found && now.Before(e.leaseUntil) {
		return e.record(), nonce != "" && nonce == e.nonce
	}
	s.issued++
	e = entry{
		attempts:   e.attempts + 1,
		token:      s.issued,
		nonce:      nonce,
		leaseUntil: now.Add(lease),
		updatedAt:  now,
	}
	s.records[k] = e
	return e.record(), true
}

func (s *Space) complete(k key, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, found := s.records[k]
	if !found {
		return model.ErrNotFound
	}
	if !e.done {
		s.finish(k, e, now)
	}
	return nil
}

func (s *Space) completeClaim(k key, token string, now time.Time, effect *model.Effect) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	e, found := s.records[k]
	if !found {
		return model.ErrNotFound
	}
	if token != strconv.FormatUint(e.token, 10) {
		return model.ErrFenced
	}
	if e.done {
		return nil
	}
	s.finish(k, e, now)
	if effect != nil {
		s.ledger = append(s.ledger, model.Applied{Consumer: k.consumer, MessageID: k.id, Effect: *effect})
	}
	return nil
}

// finish makes a PROCESSING entry DONE. The token stays, so that its owner may repeat the completion.
func (s *Space) finish(k key, e entry, now time.Time) {
	e.done, e.leaseUntil, e.updatedAt = true, time.Time{}, now
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
		case !e.done:
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
	state := model.Processing
	if e.done {
		state = model.Done
	}
	return model.Record{
		State:      state,
		Attempts:   e.attempts,
		LeaseUntil: e.leaseUntil,
		UpdatedAt:  e.updatedAt,
		Token:      strconv.FormatUint(e.token, 10),
	}
}

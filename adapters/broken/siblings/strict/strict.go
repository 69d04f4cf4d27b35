// Package strict is a right store that refuses every late Complete.
package strict

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// The two values of Record.State.
const (
	StateProcessing = "PROCESSING"
	StateDone       = "DONE"
)

// The reasons for which Complete refuses; match them with errors.Is.
var (
	ErrUnknown      = errors.New("unknown message")
	ErrAlreadyDone  = errors.New("message is already done")
	ErrLeaseExpired = errors.New("lease has expired")
)

// Record is the dedup state of one message for one consumer. LeaseUntil is
// the zero time once the message is DONE.
type Record struct {
	State      string
	Attempts   int
	LeaseUntil time.Time
	UpdatedAt  time.Time
}

const shardCount = 16

// shard maps consumer to message id to record. A stored *Record is never
// modified, only replaced by a new one.
type shard struct {
	mu        sync.Mutex
	consumers map[string]map[string]*Record
}

// Strict is the store, with consumers spread over independently locked
// shards. It is safe for concurrent use; create it with NewStrict.
type Strict struct {
	seed   maphash.Seed
	shards [shardCount]shard
}

// NewStrict returns an empty store.
func NewStrict() *Strict {
	s := &Strict{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].consumers = make(map[string]map[string]*Record)
	}
	return s
}

func (s *Strict) shardFor(consumer string) *shard {
	return &s.shards[maphash.String(s.seed, consumer)%shardCount]
}

// Begin claims the message if it is new or if its lease has run out, and
// reports whether it did. The record returned is the one now in the store.
func (s *Strict) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Record, bool, error) {
	sh := s.shardFor(consumer)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// Checked under the lock, so that a context that ends while waiting counts.
	if err := ctx.Err(); err != nil {
		return Record{}, false, err
	}
	attempts := 1
	if old, ok := sh.consumers[consumer][messageID]; ok {
		if old.State == StateDone || now.Before(old.LeaseUntil) {
			return *old, false, nil
		}
		attempts = old.Attempts + 1
	}
	messages := sh.consumers[consumer]
	if messages == nil {
		messages = make(map[string]*Record)
		sh.consumers[consumer] = messages
	}
	claimed := &Record{State: StateProcessing, Attempts: attempts, LeaseUntil: now.Add(lease), UpdatedAt: now}
	messages[messageID] = claimed
	return *claimed, true, nil
}

// Complete marks the message DONE while its current lease is live; any other
// call is an error and changes nothing. It carries no owner, so it cannot tell
// a former owner from the one that took over and holds the live lease.
func (s *Strict) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	sh := s.shardFor(consumer)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	old, ok := sh.consumers[consumer][messageID]
	switch {
	case !ok:
		return fmt.Errorf("complete %q for %q: %w", messageID, consumer, ErrUnknown)
	case old.State == StateDone:
		return fmt.Errorf("complete %q for %q: %w", messageID, consumer, ErrAlreadyDone)
	case !now.Before(old.LeaseUntil):
		return fmt.Errorf("complete %q for %q: %w", messageID, consumer, ErrLeaseExpired)
	}
	sh.consumers[consumer][messageID] = &Record{State: StateDone, Attempts: old.Attempts, UpdatedAt: now}
	return nil
}

// Prune removes the DONE records last updated before the cut-off and returns
// how many. It locks one shard at a time and, once started, runs to the end.
func (s *Strict) Prune(ctx context.Context, before time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	removed := 0
	for i := range s.shards {
		removed += s.shards[i].prune(before)
	}
	return removed, nil
}

func (sh *shard) prune(before time.Time) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	removed := 0
	for consumer, messages := range sh.consumers {
		for id, r := range messages {
			if r.State == StateDone && r.UpdatedAt.Before(before) {
				delete(messages, id)
				removed++
			}
		}
		if len(messages) == 0 {
			delete(sh.consumers, consumer)
		}
	}
	return removed
}

// Package plain is a right store of the plainest make: a map and a mutex, and three methods.
package plain

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The states a Record can be in.
const (
	StateProcessing = "PROCESSING"
	StateDone       = "DONE"
)

// Record is the processing state of one message for one consumer.
type Record struct {
	State      string
	Attempts   int
	LeaseUntil time.Time
	UpdatedAt  time.Time
}

// key identifies a record.
type key struct {
	consumer, messageID string
}

// Plain is an in-memory message-dedup store. It is safe for concurrent use.
type Plain struct {
	mu      sync.Mutex
	records map[key]Record
}

// NewPlain returns an empty store.
func NewPlain() *Plain {
	return &Plain{records: make(map[key]Record)}
}

// Begin tries to claim the message until now+lease and reports whether it did.
// The returned record is the one stored after the call, claimed or not.
func (p *Plain) Begin(_ context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Record, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	k := key{consumer, messageID}
	rec, ok := p.records[k]
	if ok && (rec.State == StateDone || now.Before(rec.LeaseUntil)) {
		return rec, false, nil
	}
	// Absent, or PROCESSING with an expired lease.
	rec.State = StateProcessing
	rec.Attempts++
	rec.LeaseUntil = now.Add(lease)
	rec.UpdatedAt = now
	p.records[k] = rec
	return rec, true, nil
}

// Complete marks the message as done and clears its lease.
// It is an error if the message is unknown.
func (p *Plain) Complete(_ context.Context, consumer, messageID string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	k := key{consumer, messageID}
	rec, ok := p.records[k]
	if !ok {
		return fmt.Errorf("complete: unknown message %q for consumer %q", messageID, consumer)
	}
	rec.State = StateDone
	rec.LeaseUntil = time.Time{}
	rec.UpdatedAt = now
	p.records[k] = rec
	return nil
}

// Prune removes the done records last updated before the cut-off and returns
// how many it removed. Records still in processing are kept.
func (p *Plain) Prune(_ context.Context, before time.Time) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	n := 0
	for k, rec := range p.records {
		if rec.State == StateDone && rec.UpdatedAt.Before(before) {
			delete(p.records, k)
			n++
		}
	}
	return n, nil
}

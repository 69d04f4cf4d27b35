// Package holding is a right store whose handles keep their claims, so that Complete can tell its caller.
package holding

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The two values of Record.State.
const (
	StateProcessing = "PROCESSING"
	StateDone       = "DONE"
)

var (
	// ErrUnknownMessage is returned by Complete when the table has no record of the message.
	ErrUnknownMessage = errors.New("holding: unknown message")
	// ErrNotHeld is returned by Complete when the message's current claim was not made through this handle.
	ErrNotHeld = errors.New("holding: claim not held by this handle")
)

// Record is the visible processing state of one message for one consumer.
type Record struct {
	State      string
	Attempts   int
	LeaseUntil time.Time
	UpdatedAt  time.Time
}

type key struct{ consumer, messageID string }

// entry is a record together with the number of the claim that currently owns it.
type entry struct {
	rec   Record
	claim uint64
}

// Table is the backing store shared by all handles; it is safe for concurrent use.
type Table struct {
	mu        sync.Mutex // also guards the fields of every Holding opened on the table
	entries   map[key]entry
	lastClaim uint64 // never reused, so a claim from before a prune cannot match a later one
	prunes    uint64 // prunes that removed something
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{entries: make(map[key]entry)}
}

// Open returns a new handle that holds no claims. Give each worker its own:
// calls through one handle share its claims and cannot be told apart.
func (t *Table) Open() *Holding {
	return &Holding{table: t, claims: make(map[key]uint64)}
}

// Holding is one worker's handle on a Table and remembers the claims made
// through it. It is safe for concurrent use.
type Holding struct {
	table  *Table
	claims map[key]uint64
	swept  uint64 // value of table.prunes when claims was last swept
}

// Begin claims the message if it is new or its lease has run out, and reports
// whether it did. The returned record is the current one either way.
func (h *Holding) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, false, err
	}
	t, k := h.table, key{consumer, messageID}
	t.mu.Lock()
	defer t.mu.Unlock()
	h.sweep()

	e, ok := t.entries[k]
	if ok && (e.rec.State == StateDone || now.Before(e.rec.LeaseUntil)) {
		return e.rec, false, nil
	}
	t.lastClaim++
	e.claim = t.lastClaim
	e.rec = Record{
		State:      StateProcessing,
		Attempts:   e.rec.Attempts + 1,
		LeaseUntil: now.Add(lease),
		UpdatedAt:  now,
	}
	t.entries[k] = e
	h.claims[k] = e.claim
	return e.rec, true, nil
}

// Complete marks the message done if this handle holds its current claim, even
// after the lease has run out. Repeating it for the same claim changes nothing.
func (h *Holding) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, k := h.table, key{consumer, messageID}
	t.mu.Lock()
	defer t.mu.Unlock()

	e, ok := t.entries[k]
	if !ok {
		return ErrUnknownMessage
	}
	if claim, held := h.claims[k]; !held || claim != e.claim {
		return ErrNotHeld
	}
	if e.rec.State == StateDone {
		return nil
	}
	e.rec.State = StateDone
	e.rec.LeaseUntil = time.Time{}
	e.rec.UpdatedAt = now
	t.entries[k] = e
	return nil
}

// Prune removes the done records of the whole table last updated before the
// cut-off and returns how many it removed.
func (h *Holding) Prune(ctx context.Context, before time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()

	removed := 0
	for k, e := range t.entries {
		if e.rec.State == StateDone && e.rec.UpdatedAt.Before(before) {
			delete(t.entries, k)
			removed++
		}
	}
	if removed > 0 {
		t.prunes++
	}
	h.sweep()
	return removed, nil
}

// sweep forgets, once after each prune, the claims that are no longer current,
// so a long-lived handle does not outgrow its table. The table must be locked.
func (h *Holding) sweep() {
	if h.swept == h.table.prunes {
		return
	}
	for k, claim := range h.claims {
		if e, ok := h.table.entries[k]; !ok || e.claim != claim {
			delete(h.claims, k)
		}
	}
	h.swept = h.table.prunes
}

// Package mailbox is a right inbox in memory, and the consumer that a team builds on one: a message's mark and its
// effect are written under one lock, or neither is.
package mailbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

var errNoKey = errors.New("mailbox: consumer and id must not be empty")

type address struct{ consumer, id string }

// Box keeps the marks of applied messages, and the effects. It is safe for concurrent use; create it with New.
type Box struct {
	mu     sync.RWMutex
	marks  map[address]time.Time
	posted []model.Applied
}

// New returns an empty box.
func New() *Box { return &Box{marks: map[address]time.Time{}} }

// ApplyOnce applies a message that was not applied before.
func (b *Box) ApplyOnce(ctx context.Context, consumer, id string, now time.Time, effect model.Effect) (bool, error) {
	if consumer == "" || id == "" {
		return false, errNoKey
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	to := address{consumer, id}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, marked := b.marks[to]; marked {
		return false, nil
	}
	b.marks[to] = now
	b.posted = append(b.posted, model.Applied{Consumer: consumer, MessageID: id, Effect: effect})
	return true, nil
}

// Prune forgets marks from before an instant.
func (b *Box) Prune(ctx context.Context, before time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	had := len(b.marks)
	for to, at := range b.marks {
		if at.Before(before) {
			delete(b.marks, to)
		}
	}
	return had - len(b.marks), nil
}

// Effects lists what was applied.
func (b *Box) Effects() []model.Applied {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return append([]model.Applied(nil), b.posted...)
}

// Reading is a Box that can be read. To a reader an absent mark is an error here, which is as good as "not found".
type Reading struct{ *Box }

// Lookup reads a mark.
func (r Reading) Lookup(_ context.Context, consumer, id string) (model.Record, bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, marked := r.marks[address{consumer, id}]
	if !marked {
		return model.Record{}, false, model.ErrNotFound
	}
	return model.Record{State: model.Done, Attempts: 1, UpdatedAt: at}, true, nil
}

// Reader is the consumer on a box: nothing is ever in flight.
type Reader struct {
	Box *Box
	Now func() time.Time
}

// Deliver applies one message.
func (r *Reader) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	applied, err := r.Box.ApplyOnce(ctx, m.Consumer, m.ID, r.Now(), m.Effect)
	switch {
	case err != nil:
		return model.ResultInFlight, err
	case !applied:
		return model.ResultDuplicate, nil
	}
	return model.ResultApplied, nil
}

// DeliverBatch applies several under one lock, the last first: a batch promises no order.
func (r *Reader) DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, told := r.Now(), make([]model.Result, len(batch))
	r.Box.mu.Lock()
	defer r.Box.mu.Unlock()
	for i := len(batch) - 1; i >= 0; i-- {
		m := batch[i]
		to := address{m.Consumer, m.ID}
		told[i] = model.ResultDuplicate
		if _, marked := r.Box.marks[to]; !marked {
			r.Box.marks[to] = now
			r.Box.posted = append(r.Box.posted, model.Applied{Consumer: m.Consumer, MessageID: m.ID, Effect: m.Effect})
			told[i] = model.ResultApplied
		}
	}
	return told, nil
}

// Prune forgets.
func (r *Reader) Prune(ctx context.Context, before time.Time) (int, error) {
	return r.Box.Prune(ctx, before)
}

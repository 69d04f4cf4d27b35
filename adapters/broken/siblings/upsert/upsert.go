// Package upsert is a right consumer without any dedup record: the business row's own unique key is the last
// constraint. It answers "applied" every time, since it neither knows nor cares whether the row was there before.
package upsert

import (
	"context"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

type order struct{ consumer, id string }

// Orders is the business table. It is safe for concurrent use; create it with New.
type Orders struct {
	mu   sync.Mutex
	rows map[order]model.Effect
}

// New returns an empty table.
func New() *Orders { return &Orders{rows: map[order]model.Effect{}} }

// Deliver inserts the row, or does nothing on a conflict.
func (o *Orders) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, conflict := o.rows[order{m.Consumer, m.ID}]; !conflict {
		o.rows[order{m.Consumer, m.ID}] = m.Effect
	}
	return model.ResultApplied, nil
}

// Effects lists the rows.
func (o *Orders) Effects() []model.Applied {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]model.Applied, 0, len(o.rows))
	for k, e := range o.rows {
		all = append(all, model.Applied{Consumer: k.consumer, MessageID: k.id, Effect: e})
	}
	return all
}

// Marked is the same table behind a dedup record that is pruned: within the window it tells a duplicate, and after it
// the row's key still keeps the effect from happening twice.
type Marked struct {
	Orders *Orders
	Marks  *sync.Map // by order, when it was finished
	Now    func() time.Time
}

// Deliver inserts the row, or does nothing.
func (m Marked) Deliver(ctx context.Context, msg model.Message) (model.Result, error) {
	key := order{msg.Consumer, msg.ID}
	if _, marked := m.Marks.Load(key); marked {
		return model.ResultDuplicate, nil
	}
	told, err := m.Orders.Deliver(ctx, msg)
	if err == nil { // not in one transaction with the row, which is what the row's key is for
		m.Marks.LoadOrStore(key, m.Now())
	}
	return told, err
}

// Prune forgets the marks.
func (m Marked) Prune(_ context.Context, before time.Time) (n int, err error) {
	m.Marks.Range(func(key, at any) bool {
		if at.(time.Time).Before(before) && m.Marks.CompareAndDelete(key, at) {
			n++
		}
		return true
	})
	return n, nil
}

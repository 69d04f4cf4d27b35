// Package upsert is a right consumer without any dedup record: the business row's own unique key is the last
// constraint. It answers "applied" every time, since it neither knows nor cares whether the row was there before.
package upsert

import (
	"context"
	"sync"

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

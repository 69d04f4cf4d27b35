package scenarios

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// epoch is where the plan's time begins. It is far from the machine's own time, so that a store that asks the
// machine's clock instead of its caller is found out.
var epoch = time.Date(2031, time.March, 30, 0, 0, 0, 0, time.UTC)

// execution is one run of one plan, one operation at a time.
type execution struct {
	lane    *lane
	plan    *Plan
	history *model.History

	steps []int // by operation: the plan's step
	at    int   // the step that runs
	underway
	moment  int64
	time    time.Duration // since the epoch
	workers []worker
	handles int // opened values that this history has seen
}

// ran is what came of one run: the history, and the plan's step behind each operation.
type ran struct {
	history *model.History
	steps   []int
}

// run executes a plan and returns what happened. An error is the kit's or the harness's, never the store's answer.
func (l *lane) run(ctx context.Context, p *Plan) (*ran, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	p = l.unused(p)
	x := &execution{lane: l, plan: p, history: &model.History{
		Store: l.h.Name, Scenario: string(p.Tier), Epoch: model.InstantOf(epoch), Contract: l.h.Contract, Zones: p.Zones,
		Operations: make([]model.Operation, 0, len(p.Steps)),
	}}
	learned := make([][]claimed, len(p.Keys))
	for i, zone := range p.Zones {
		x.workers = append(x.workers, newWorker(i+1, zone, p.Keys))
		if p.Tier == Stepped {
			x.workers[i].learned = learned
		}
	}
	if p.Tier == Real {
		return x.runReal(ctx)
	}
	return x.watched(ctx)
}

// unused gives a plan's messages ids that no other run has used, where namespaces share their records.
func (l *lane) unused(p *Plan) *Plan {
	if !l.h.Contract.SharedNamespace {
		return p
	}
	q := with(p, p.Steps)
	q.Keys = slices.Clone(p.Keys)
	mark := l.names.next()
	for k := range q.Keys {
		q.Keys[k].ID += " " + mark
	}
	return q
}

func (x *execution) run(ctx context.Context) (*ran, error) {
	for i := range x.plan.Steps {
		x.at = i
		if err := x.step(ctx, &x.plan.Steps[i]); err != nil {
			return nil, err
		}
		for len(x.steps) < len(x.history.Operations) {
			x.steps = append(x.steps, i)
		}
	}
	if err := x.readLedger(ctx); err != nil {
		return nil, err
	}
	return &ran{x.history, x.steps}, nil
}

func (x *execution) step(ctx context.Context, s *Step) error {
	switch s.Verb {
	case ClockStep:
		x.time += s.By
		for i := range x.workers {
			x.workers[i].time = x.time
		}
		if x.lane.h.Advance != nil && s.By > 0 {
			return bounded(ctx, func(ctx context.Context) error { return x.lane.h.Advance(ctx, s.By) })
		}
		return nil
	case SkewStep:
		x.workers[s.Worker-1].skew = s.By
		return nil
	case CrashStep:
		return x.crash(s.Worker)
	}
	return x.call(ctx, s)
}

func (x *execution) crash(w int) error {
	if w <= len(x.lane.handles) {
		if err := x.lane.crash(w - 1); err != nil {
			return err
		}
	}
	x.workers[w-1].forget()
	return nil
}

// handle opens the worker's handle if need be, and numbers it.
func (x *execution) handle(ctx context.Context, w *worker) (*handle, error) {
	h, err := x.lane.open(ctx, w.number, w.time+w.skew)
	if err != nil {
		return nil, err
	}
	h.clock.Store(int64(w.time + w.skew))
	if w.handle == 0 {
		x.handles++
		w.handle = x.handles
	}
	if x.history.Capabilities == nil {
		x.history.Capabilities = h.kinds()
	}
	return h, nil
}

func (x *execution) tick() int64 {
	x.moment++
	return x.moment
}

// call has a worker make one call, and records it.
func (x *execution) call(ctx context.Context, s *Step) error {
	w := &x.workers[s.Worker-1]
	h, err := x.handle(ctx, w)
	if err != nil {
		return err
	}
	o := model.Operation{ID: len(x.history.Operations) + 1, Worker: w.number, Handle: w.handle, Kind: s.Verb}
	if !w.invoke(s, h, &o) {
		return nil
	}
	fault, err := x.arm(s)
	if err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, callAtMost)
	defer cancel()
	if s.Cancelled {
		cancel()
	}
	o.Call, o.CalledAt = x.tick(), x.serverTime()
	begun := x.enter(&o, fault != nil)
	w.call(callCtx, s, h, &o, x.lane.h.outcome)
	if !x.leave() {
		return errGivenUp
	}
	o.Return, o.ReturnedAt = x.tick(), x.serverTime()
	x.answer(ctx, s, &o, fault, time.Since(begun))
	x.history.Operations = append(x.history.Operations, o)
	if o.Fault != 0 && s.Reply == Lost {
		x.lane.warm(ctx, w.number, h) // the connection is a new one
	}
	if !x.unseen(s) {
		w.learn(s, &o)
	}
	return ctx.Err()
}

// readLedger reads the effects of this plan's messages.
func (x *execution) readLedger(ctx context.Context) error {
	committed := slices.ContainsFunc(x.history.Operations, func(o model.Operation) bool { return o.Effect.ID != "" })
	if !committed || x.lane.h.Effects == nil {
		return nil
	}
	var found []model.Applied
	err := bounded(ctx, func(ctx context.Context) (err error) {
		found, err = x.lane.h.Effects(ctx, x.lane.namespace)
		return err
	})
	if err != nil {
		return fmt.Errorf("scenarios: %s: read the effects: %w", x.lane.h.Name, err)
	}
	x.history.LedgerRead = x.tick()
	for _, a := range found {
		key := model.Key{Consumer: a.Consumer, ID: a.MessageID}
		if slices.Contains(x.plan.Keys, key) {
			x.history.Effects = append(x.history.Effects, model.EffectRow{Key: key, Effect: a.Effect})
		}
	}
	return nil
}

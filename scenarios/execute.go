package scenarios

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// execution is one run of one plan, one operation at a time.
type execution struct {
	lane    *lane
	plan    *Plan
	history *model.History

	timeline
	steps []int // by operation: the plan's step
	at    int   // the step that runs
	underway
	moment  int64
	time    time.Duration // the plan's, since the epoch
	workers []worker
	handles int // opened values that this history has seen
}

// ran is what came of one run: the history, and the plan's step behind each operation.
type ran struct {
	history *model.History
	steps   []int
	moved   bool // the machine's clock was set meanwhile
}

// judged is what the history shows. Where the machine's clock was set meanwhile, what looks wrong may not be.
func (r *ran) judged(by *checker.Judge) checker.Judgement {
	j := by.Judge(r.history)
	if j.Verdict == checker.Violated && r.moved {
		j.Verdict, j.Reason = checker.Undecided, nil
		j.Limit = "the machine's clock was set while a plan ran on the server's clock; run it again"
	}
	return j
}

// run executes a plan and returns what happened. An error is the kit's or the harness's, never the store's answer.
func (l *lane) run(ctx context.Context, p *Plan) (*ran, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	p = l.unused(p).numbered()
	x := &execution{lane: l, plan: p, timeline: l.newTimeline()}
	x.history = &model.History{
		Store: l.h.Name, Scenario: string(p.Tier), Epoch: model.InstantOf(x.epoch), Contract: l.h.Contract, Zones: p.Zones,
		Operations: make([]model.Operation, 0, len(p.Steps)),
	}
	learned := make([][]claimed, len(p.Keys))
	for i, zone := range p.Zones {
		x.workers = append(x.workers, newWorker(i+1, zone, p.Keys, &x.timeline))
		if p.Tier == Stepped {
			x.workers[i].learned = learned
		}
	}
	run := x.watched
	if p.Tier == Real {
		run = x.runReal
	}
	r, err := run(ctx)
	if r != nil {
		r.moved = x.moved(l.h.Contract.WithDefaults().ClockError)
	}
	return r, err
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

// nameThePlan lets a store's own panic go on, with the plan that it came from: nothing else would tell it.
func (x *execution) nameThePlan() {
	if p := recover(); p != nil {
		panic(fmt.Sprintf("%v\n\nscenarios: %s: while this plan ran: EFFECTONCE_PLAN='%s'", p, x.lane.h.Name, x.plan.OneLine()))
	}
}

func (x *execution) run(ctx context.Context) (*ran, error) {
	defer x.nameThePlan()
	for i := 0; i < len(x.plan.Steps); {
		n := x.plan.together(i)
		x.at = i
		if err := x.step(ctx, x.plan.Steps[i:i+n]); err != nil {
			return nil, err
		}
		for at := i; len(x.steps) < len(x.history.Operations); at = min(at+1, i+n-1) {
			x.steps = append(x.steps, at)
		}
		i += n
	}
	if err := x.readLedger(ctx); err != nil {
		return nil, err
	}
	return &ran{history: x.history, steps: x.steps}, nil
}

// step takes one step, or the steps of one batch.
func (x *execution) step(ctx context.Context, steps []Step) error {
	switch s := &steps[0]; s.Verb {
	case ClockStep:
		x.time += s.By
		for i := range x.workers {
			x.workers[i].time = x.time
		}
		return x.pass(ctx, s.By)
	case SkewStep:
		x.workers[s.Worker-1].skew = s.By
		return nil
	case CrashStep:
		return x.crash(s.Worker)
	}
	return x.call(ctx, steps)
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
	h, err := x.lane.open(ctx, w.number, w.now(), w.skew)
	if err != nil {
		return nil, err
	}
	if w.handle == 0 {
		x.handles++
		w.handle = x.handles
	}
	if x.history.Capabilities == nil {
		x.history.Capabilities = x.lane.h.door().kinds(&h.capabilities)
	}
	return h, nil
}

func (x *execution) tick() int64 {
	x.moment++
	return x.moment
}

// call has a worker make one call, and records it: one operation, or one for each message of a batch.
func (x *execution) call(ctx context.Context, steps []Step) error {
	s := &steps[0]
	w := &x.workers[s.Worker-1]
	h, err := x.handle(ctx, w)
	if err != nil {
		return err
	}
	ops := make([]model.Operation, len(steps))
	for i := range ops {
		ops[i] = model.Operation{ID: len(x.history.Operations) + 1 + i, Worker: w.number, Handle: w.handle, Kind: s.Verb}
		if !w.invoke(&steps[i], h, &ops[i]) {
			return nil
		}
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
	for i := range ops {
		ops[i].Call, ops[i].CalledAt = x.tick(), x.called(x.time)
	}
	begun := x.enter(&ops[0], fault != nil)
	w.call(callCtx, steps, h, ops, x.lane.h.outcome)
	if !x.leave() {
		return errGivenUp
	}
	for i := range ops {
		ops[i].Return, ops[i].ReturnedAt = x.tick(), x.returned(x.time)
	}
	x.answer(ctx, s, ops, fault, time.Since(begun))
	x.history.Operations = append(x.history.Operations, ops...)
	if ops[0].Fault != 0 && s.Fault.onTheWire() {
		x.lane.warm(ctx, w.number, h) // the connection is a new one
	}
	if !x.unseen(s) {
		w.learn(s, &ops[0])
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

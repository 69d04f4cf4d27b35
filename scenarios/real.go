package scenarios

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce/model"
)

// crew runs a plan of the real tier: every worker at once, each on its own handle, in rounds. The time moves and
// workers crash between two rounds only, when nobody is in a call.
//
// A worker is told what to do in lines of the plan and answers in lines of the history, and is told nothing else. No
// lock is held across a call: each worker's driver records for itself, and moments come from one atomic sequence.
type crew struct {
	*execution
	moment  atomic.Int64
	drivers []*driver
}

// driver is the executor's side of one worker.
type driver struct {
	worker  *worker
	handle  *handle
	in, out chan string
	done    []recorded
	err     error
	late    bool
	cold    bool // its connection is a new one since a reply was lost
}

// recorded is one operation, before all are put in order. Claims are still named by the worker's own numbers.
type recorded struct {
	operation model.Operation
	step      int
	fault     string
	detail    string
	broken    bool // a fault on the wire met it
}

func (x *execution) runReal(ctx context.Context) (*ran, error) {
	c := &crew{execution: x}
	for i := range x.workers {
		c.drivers = append(c.drivers, &driver{worker: &x.workers[i]})
	}
	defer c.dismiss()
	for at := 0; at < len(x.plan.Steps); {
		if s := &x.plan.Steps[at]; !s.calls() {
			if err := c.between(ctx, s); err != nil {
				return nil, err
			}
			at++
			continue
		}
		end := at
		for end < len(x.plan.Steps) && x.plan.Steps[end].calls() {
			end++
		}
		if err := c.round(ctx, at, end); err != nil {
			return nil, err
		}
		at = end
	}
	r := c.order()
	if c.stuck() {
		c.lane.abandon()
		return r, nil
	}
	return r, x.readLedger(ctx)
}

// between is a step that is no call: the time moves, or a worker crashes.
func (c *crew) between(ctx context.Context, s *Step) error {
	if s.Verb == CrashStep {
		d := c.drivers[s.Worker-1]
		d.end()
		d.handle = nil
	}
	return c.step(ctx, []Step{*s})
}

// round has every worker take its steps of the round, one after the other, while the others take theirs.
func (c *crew) round(ctx context.Context, from, to int) error {
	for _, d := range c.drivers {
		if err := c.enlist(ctx, d, from, to); err != nil {
			return err
		}
	}
	c.loadGun(from, to)
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, d := range c.drivers {
		if d.late {
			continue
		}
		all.Go(func() {
			<-start
			for at := from; at < to && d.err == nil && !d.late; at++ {
				if n := c.plan.together(at); c.plan.Steps[at].Worker == d.worker.number {
					d.err = c.tell(ctx, d, at, n)
					at += n - 1
				}
			}
		})
	}
	close(start)
	all.Wait()
	var err error
	for _, d := range c.drivers {
		err = errors.Join(err, d.err)
		if d.cold && !d.late && d.err == nil {
			// Only now: a Prune beside it would count the warm-up's records.
			c.lane.warm(ctx, d.worker.number, d.handle)
			d.cold = false
		}
	}
	return errors.Join(err, ctx.Err())
}

// loadGun has the first calls of a round begin together. A worker that waits for a fault to be armed would only hold
// the others up.
func (c *crew) loadGun(from, to int) {
	var first []*worker
	for _, d := range c.drivers {
		at := slices.IndexFunc(c.plan.Steps[from:to], func(s Step) bool { return s.Worker == d.worker.number })
		if at >= 0 && !d.late && !c.plan.Steps[from+at].Fault.onTheWire() {
			first = append(first, d.worker)
		}
	}
	g := newGun(len(first))
	for _, w := range first {
		w.gun = g
	}
}

// enlist opens the handle of a worker that has something to do and starts the worker on it.
func (c *crew) enlist(ctx context.Context, d *driver, from, to int) error {
	busy := slices.ContainsFunc(c.plan.Steps[from:to], func(s Step) bool { return s.Worker == d.worker.number })
	if !busy {
		return nil
	}
	if d.handle != nil {
		c.lane.set(d.handle, d.worker.now(), d.worker.skew)
		return nil
	}
	h, err := c.execution.handle(ctx, d.worker)
	if err != nil {
		return err
	}
	d.handle, d.in, d.out = h, make(chan string), make(chan string, 1)
	go func(in <-chan string, out chan<- string) {
		defer c.nameThePlan()
		d.worker.serve(ctx, h, c.lane.h, in, out, c.history.Epoch)
	}(d.in, d.out)
	return nil
}

// tell hands a worker one line, of n steps from here, and records what it answers.
func (c *crew) tell(ctx context.Context, d *driver, at, n int) error {
	s := &c.plan.Steps[at]
	fault, err := c.arm(s)
	if err != nil {
		return err
	}
	told := make([]string, n)
	for i := range told {
		told[i] = c.plan.Steps[at+i].line()
	}
	call, calledAt := c.moment.Add(int64(n))-int64(n)+1, c.called(c.time)
	begun := time.Now()
	d.in <- strings.Join(told, "; ")
	line, answered := d.await(fault != nil)
	if !answered {
		d.late = true
		d.done = append(d.done, recorded{operation: model.Operation{
			Worker: d.worker.number, Handle: d.worker.handle, Kind: s.Verb, Key: c.keyOf(s), Call: call, CalledAt: calledAt, Late: true,
		}, step: at})
		return nil
	}
	if line == "" {
		return nil // the step could not be taken
	}
	took, returnedAt := time.Since(begun), c.returned(c.time)
	ops := make([]model.Operation, 0, n)
	for i, answer := range splitLines(line) {
		o, err := c.history.ParseOperation(answer)
		if err != nil {
			return err
		}
		o.Call, o.Return, o.CalledAt, o.ReturnedAt = call+int64(i), c.moment.Add(1), calledAt, returnedAt
		ops = append(ops, o)
	}
	c.record(ctx, d, at, ops, fault, took)
	return nil
}

// record keeps operations with the fault that touched them, and the moment from which their outcome cannot change.
func (c *crew) record(ctx context.Context, d *driver, at int, ops []model.Operation, fault *wireFault, took time.Duration) {
	s := &c.plan.Steps[at]
	after := fault.settle(ctx)
	names := make([]string, len(ops))
	for i := range ops {
		names[i] = c.touched(s, &ops[i], after, took)
	}
	closed := anyUnknown(ops) && c.final(ctx, s, after, took)
	for i := range ops {
		o := ops[i]
		o.Unseen = c.unseen(s)
		if closed && o.Answer.Outcome == model.Unknown {
			o.Closed = c.moment.Add(1)
		}
		d.done = append(d.done, recorded{operation: o, step: at + i, fault: names[i], detail: after.detail, broken: after.bitten})
	}
	d.cold = d.cold || after.bitten
}

func (c *crew) keyOf(s *Step) model.Key {
	if s.Key == 0 {
		return model.Key{}
	}
	return c.plan.Keys[s.Key-1]
}

// await waits for a worker's answer, within the bound of a call. While a fault is at work nothing is late.
func (d *driver) await(faulty bool) (string, bool) {
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	begun := time.Now()
	for ticks := 0; faulty || ticks < lateControls || time.Since(begun) < lateAfter; {
		select {
		case line := <-d.out:
			return line, true
		case <-watch.C:
			ticks++
		}
	}
	return "", false
}

// order puts what all drivers recorded into one history.
func (c *crew) order() *ran {
	var all []recorded
	for _, d := range c.drivers {
		all = append(all, d.done...)
	}
	slices.SortFunc(all, func(a, b recorded) int { return cmp.Compare(a.operation.Call, b.operation.Call) })
	number := map[[2]int]int{} // by worker and the worker's own number
	for i := range all {
		o := &all[i].operation
		number[[2]int{o.Worker, o.ID}] = i + 1
	}
	for i := range all {
		o := all[i].operation
		if o.Claim != 0 {
			o.Claim = number[[2]int{o.Worker, o.Claim}]
		}
		o.ID = i + 1
		if all[i].fault != "" {
			o.Fault = c.window(all[i].fault, all[i].detail, &o)
		}
		if o.Return != 0 && o.Answer.Outcome == model.Unknown && o.Closed == 0 {
			c.lane.dirty = true
		}
		if all[i].broken {
			c.mark(brokenOnTheWire)
		}
		c.history.Operations = append(c.history.Operations, o)
		c.steps = append(c.steps, all[i].step)
	}
	c.execution.moment = c.moment.Load()
	c.markOverlaps()
	return &ran{history: c.history, steps: c.steps}
}

// overlapped is the mark of two calls on one key that were really open at once.
const overlapped = "two calls on one key overlapped"

func (c *crew) markOverlaps() {
	ops := c.history.Operations
	for i := range ops {
		for k := i + 1; k < len(ops) && (ops[i].Return == 0 || ops[k].Call < ops[i].Return); k++ {
			if ops[i].Kind.Keyed() && ops[i].Key == ops[k].Key {
				c.mark(overlapped)
			}
		}
	}
}

func (c *crew) stuck() bool {
	return slices.ContainsFunc(c.drivers, func(d *driver) bool { return d.late })
}

func (c *crew) dismiss() {
	for _, d := range c.drivers {
		d.end()
	}
}

// end tells a worker that there is nothing more to do. One that is stuck in a call never hears it.
func (d *driver) end() {
	if d.in != nil {
		close(d.in)
		d.in = nil
	}
}

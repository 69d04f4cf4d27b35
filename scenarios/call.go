package scenarios

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// answer records the response: how far its outcome is known, and when it can no longer take effect.
func (x *execution) answer(ctx context.Context, s *Step, ops []model.Operation, fault *wireFault, took time.Duration) {
	after := fault.settle(ctx)
	for i := range ops {
		o := &ops[i]
		if name := x.touched(s, o, after, took); name != "" {
			o.Fault = x.window(name, after.detail, o)
		}
		o.Unseen = x.unseen(s)
	}
	if after.bitten {
		x.mark(brokenOnTheWire)
		if after.quiet {
			x.mark(quietTime)
		}
	}
	if !anyUnknown(ops) {
		return
	}
	if !x.final(ctx, s, after, took) {
		x.lane.dirty = true // it may still take effect: nothing else may meet it
		return
	}
	for i := range ops {
		if ops[i].Answer.Outcome == model.Unknown {
			ops[i].Closed = x.tick()
		}
	}
}

// touched names the fault that explains an answer, if there was one, and takes up what the wire proves about it. A
// consumer may answer with no error what came of a fault.
func (x *execution) touched(s *Step, o *model.Operation, after aftermath, took time.Duration) string {
	switch {
	case after.bitten:
		if after.untouched && o.Answer.Outcome == model.Unknown && o.Kind != model.Deliver {
			o.Answer.Outcome = model.NotApplied
		}
		return after.name
	case s.Cancelled && (o.Answer.Outcome != model.OK || o.Kind == model.Deliver):
		return contextCancelled
	case o.Answer.Outcome != model.OK && took > slowAfter:
		return slowCall
	}
	return ""
}

func anyUnknown(ops []model.Operation) bool {
	return slices.ContainsFunc(ops, func(o model.Operation) bool { return o.Answer.Outcome == model.Unknown })
}

// final reports whether what was sent can no longer take effect: the wire knows, or no server owes an answer, or the
// harness waits until it is so. A store's own time-out may have ended the call, and the server be at it still.
func (x *execution) final(ctx context.Context, s *Step, after aftermath, took time.Duration) bool {
	if x.lane.h.Upstream == "" || after.closed {
		return true
	}
	answered := !after.bitten && took <= slowAfter && x.lane.proxies[s.Worker-1].Unanswered() == 0
	return answered || x.settled(ctx)
}

// slowAfter is when an error is put down to the machine: a store's own time-out may have ended the call.
const slowAfter = 2 * time.Second

// unseen: the reply is lost in process, and the worker acts without it.
func (x *execution) unseen(s *Step) bool {
	return s.Fault == Unseen || s.Fault.onTheWire() && x.lane.h.Upstream == ""
}

// settled waits until nothing that was sent can still take effect, if the harness knows how.
func (x *execution) settled(ctx context.Context) bool {
	if x.lane.h.Settled == nil {
		return false
	}
	return bounded(ctx, func(ctx context.Context) error { return x.lane.h.Settled(ctx, x.lane.namespace) }) == nil
}

func (x *execution) window(name, detail string, o *model.Operation) int {
	id := len(x.history.Faults) + 1
	x.history.Faults = append(x.history.Faults, model.Fault{ID: id, Name: name, Worker: o.Worker, From: o.Call, To: o.Return, Detail: detail})
	return id
}

// The faults, as histories name them.
const (
	contextCancelled = "context cancelled before the call"
	slowCall         = "slow"
)

// brokenOnTheWire is the mark of a call that a fault on the wire met.
const brokenOnTheWire = "call broken off on the wire"

// quietTime is the mark of a fault on a wire whose protocol nobody knows.
const quietTime = "requests told apart by quiet time"

func (x *execution) mark(name string) {
	for i := range x.history.Marks {
		if x.history.Marks[i].Name == name {
			x.history.Marks[i].Count++
			return
		}
	}
	x.history.Marks = append(x.history.Marks, model.Mark{Name: name, Count: 1})
}

func refusal(err error) model.Refusal {
	switch {
	case errors.Is(err, model.ErrFenced):
		return model.Fenced
	case errors.Is(err, model.ErrNotFound):
		return model.NotFound
	case errors.Is(err, model.ErrRefused):
		return model.Refused
	}
	return model.Failed
}

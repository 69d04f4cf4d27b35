package scenarios

import (
	"context"
	"errors"
	"time"

	"github.com/effectonce/effectonce/model"
)

// serverTime is the plan's time where the server's clock is the plan's.
func (x *execution) serverTime() model.Instant {
	if x.lane.h.Contract.Clock == model.CallerClock {
		return model.NoInstant
	}
	return model.InstantOf(epoch.Add(x.time))
}

// answer records the response: how far its outcome is known, and when it can no longer take effect.
func (x *execution) answer(ctx context.Context, s *Step, o *model.Operation, fault *lostReply, took time.Duration) {
	bitten, closed := fault.settle(ctx)
	slow := took > slowAfter
	switch {
	case o.Answer.Outcome == model.OK:
		o.Unseen = x.unseen(s)
	case bitten:
		o.Fault = x.window(replyLost, o)
		x.mark(lostOnTheWire)
	case s.Cancelled:
		o.Fault = x.window(contextCancelled, o)
	case slow:
		o.Fault = x.window(slowCall, o)
	}
	if o.Answer.Outcome != model.Unknown {
		return
	}
	if x.lane.h.Upstream == "" || closed || !bitten && !slow || x.settled(ctx) {
		o.Closed = x.tick()
		return
	}
	x.lane.dirty = true // it may still take effect: nothing else may meet it
}

// slowAfter is when an error is put down to the machine: a store's own time-out may have ended the call.
const slowAfter = 2 * time.Second

// unseen: the reply is lost in process, and the worker acts without it.
func (x *execution) unseen(s *Step) bool {
	return s.Reply == Unseen || s.Reply == Lost && x.lane.h.Upstream == ""
}

// settled waits until nothing that was sent can still take effect, if the harness knows how.
func (x *execution) settled(ctx context.Context) bool {
	if x.lane.h.Settled == nil {
		return false
	}
	return bounded(ctx, func(ctx context.Context) error { return x.lane.h.Settled(ctx, x.lane.namespace) }) == nil
}

func (x *execution) window(name string, o *model.Operation) int {
	id := len(x.history.Faults) + 1
	x.history.Faults = append(x.history.Faults, model.Fault{ID: id, Name: name, Worker: o.Worker, From: o.Call, To: o.Return})
	return id
}

// The faults, as histories name them.
const (
	replyLost        = "reply lost"
	contextCancelled = "context cancelled before the call"
	slowCall         = "slow"
)

// lostOnTheWire is the mark of a reply that the server gave and the client never got.
const lostOnTheWire = "reply lost on the wire"

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

package scenarios

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectonce/effectonce/model"
)

// serverTime is the plan's time where the server's clock is the plan's.
func (x *execution) serverTime() model.Instant {
	if x.lane.h.Contract.Clock == model.CallerClock {
		return model.NoInstant
	}
	return model.InstantOf(epoch.Add(x.time))
}

// invoke fills in what the call is given, and says whether it can be made.
func (x *execution) invoke(s *Step, h *handle, o *model.Operation) bool {
	if s.Verb.Keyed() {
		o.Key = x.plan.Keys[s.Key-1]
	}
	now := model.InstantOf(x.now(s.Worker))
	switch s.Verb {
	case model.Begin:
		o.Now, o.Lease = now, s.Lease
	case model.BeginAs:
		o.Now, o.Lease, o.Nonce = now, s.Lease, fmt.Sprintf("n%d", s.Nonce)
		return h.rebeginner != nil
	case model.Complete:
		o.Now = now
	case model.CompleteClaim:
		o.Now, o.Claim = now, x.claim(s)
		return h.fencer != nil && o.Claim > 0
	case model.CommitEffect:
		o.Now, o.Claim = now, x.claim(s)
		o.Effect = model.Effect{ID: fmt.Sprintf("e%d %s", o.ID, o.Key.ID), Account: "account", Amount: s.Effect}
		return h.committer != nil && o.Claim > 0
	case model.CompleteResult:
		o.Now, o.Claim, o.Result = now, x.claim(s), string(s.Result.bytes())
		return h.keeper != nil && o.Claim > 0
	case model.Release:
		o.Now, o.Claim, o.Reason = now, x.claim(s), fmt.Sprintf("reason %d", o.ID)
		o.VisibleAt = model.InstantOf(x.now(s.Worker).Add(s.By))
		return h.releaser != nil && o.Claim > 0
	case model.Extend:
		o.Now, o.Claim, o.Lease = now, x.claim(s), s.Lease
		return h.extender != nil && o.Claim > 0
	case model.Bury:
		o.Now, o.Claim, o.Reason = now, x.claim(s), fmt.Sprintf("reason %d", o.ID)
		return h.buryer != nil && o.Claim > 0
	case model.Replay:
		o.Now = now
		return h.buryer != nil
	case model.Prune:
		o.Before = model.InstantOf(x.now(s.Worker).Add(s.By))
	case model.Lookup:
		return h.reader != nil
	default:
		panic("scenarios: no way to call " + string(s.Verb))
	}
	return true
}

// ask makes the call. What the store says is data; a store that panics is left to panic.
func (x *execution) ask(ctx context.Context, s *Step, h *handle, o *model.Operation) (err error) {
	var record model.Record
	told := model.Answer{}
	consumer, id, now := o.Key.Consumer, o.Key.ID, o.Now.Time().In(x.workers[o.Worker-1].zone)
	switch o.Kind {
	case model.Begin:
		record, told.Yes, err = h.store.Begin(ctx, consumer, id, now, o.Lease)
	case model.BeginAs:
		record, told.Yes, err = h.rebeginner.BeginAs(ctx, consumer, id, o.Nonce, now, o.Lease)
	case model.Complete:
		err = h.store.Complete(ctx, consumer, id, now)
	case model.CompleteClaim:
		err = h.fencer.CompleteClaim(ctx, consumer, id, x.record(o.Claim), now)
	case model.CommitEffect:
		err = h.committer.CommitEffect(ctx, consumer, id, x.record(o.Claim), now, o.Effect)
	case model.CompleteResult:
		err = h.keeper.CompleteResult(ctx, consumer, id, x.record(o.Claim), now, s.Result.bytes())
	case model.Release:
		err = h.releaser.Release(ctx, consumer, id, x.record(o.Claim), now, o.VisibleAt.Time().In(now.Location()), o.Reason)
	case model.Extend:
		record, err = h.extender.Extend(ctx, consumer, id, x.record(o.Claim), now, o.Lease)
	case model.Bury:
		err = h.buryer.Bury(ctx, consumer, id, x.record(o.Claim), now, o.Reason)
	case model.Replay:
		err = h.buryer.Replay(ctx, consumer, id, now)
	case model.Prune:
		told.Count, err = h.store.Prune(ctx, o.Before.Time().In(x.workers[o.Worker-1].zone))
	case model.Lookup:
		record, told.Yes, err = h.reader.Lookup(ctx, consumer, id)
	}
	if err == nil {
		o.Answer = told
		o.Answer.SetRecord(record)
	}
	return err
}

func (x *execution) record(claim int) model.Record {
	return x.history.Operations[claim-1].Answer.Record()
}

// answer records the response: how far its outcome is known, and when it can no longer take effect.
func (x *execution) answer(ctx context.Context, s *Step, o *model.Operation, err error, fault *lostReply, ended bool) {
	o.Answer.Outcome = x.lane.h.outcome(err)
	bitten, closed := fault.settle(ctx)
	if err != nil {
		o.Answer.Error, o.Answer.Refusal = err.Error(), refusal(err)
	}
	switch {
	case err == nil:
		o.Unseen = s.Reply == Unseen || s.Reply == Lost && x.lane.h.Upstream == ""
	case bitten:
		o.Fault = x.window("reply lost", o)
		x.mark(lostOnTheWire)
	case s.Cancelled:
		o.Fault = x.window("context cancelled before the call", o)
	case ended:
		o.Fault = x.window("call ended by the kit's bound", o)
	}
	if o.Answer.Outcome != model.Unknown {
		return
	}
	if x.lane.h.Upstream == "" || closed || !bitten && !ended || x.settled(ctx) {
		o.Closed = x.tick()
		return
	}
	x.lane.dirty = true // it may still take effect: nothing else may meet it
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

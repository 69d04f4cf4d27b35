package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// worker is one worker as it knows itself: its clock, its handle, and per key the claims that it learned of. What a
// plan's step asks it to do it does on its own; when that happened and what it means is for others to say.
type worker struct {
	number int
	keys   []model.Key
	zone   *time.Location
	clock  *timeline
	time   time.Duration // the plan's, since the epoch
	skew   time.Duration
	handle int // its opened value's number in this history; 0: not used yet
	claims [][]claimed
	// learned is what all workers of a stepped run learned, by key; nil where workers share nothing.
	learned [][]claimed
	last    int // the number of its latest operation, in the real tier
	gun     *gun
}

// claimed is one claim that a worker learned of: the operation that was answered with it, and the record.
type claimed struct {
	operation int
	record    model.Record
}

func newWorker(number, zone int, keys []model.Key, clock *timeline) worker {
	return worker{number: number, keys: keys, clock: clock, zone: time.FixedZone("", zone), claims: make([][]claimed, len(keys))}
}

// now is the worker's clock, in its own time zone.
func (w *worker) now() time.Time { return w.server().Add(w.skew) }

// server is the clock without the worker's skew.
func (w *worker) server() time.Time { return w.clock.epoch.Add(w.clock.now(w.time)).In(w.zone) }

// forget is what a crash leaves: nothing.
func (w *worker) forget() { w.handle, w.claims = 0, make([][]claimed, len(w.keys)) }

// presented is the claim that a step presents, of those that the worker learned of.
func (w *worker) presented(s *Step) (claimed, bool) {
	known := w.claims[s.Key-1]
	if s.Claim == Handed && w.learned != nil {
		known = w.learned[s.Key-1]
	}
	switch n := len(known); {
	case n == 0, s.Claim == NoClaim, s.Claim == Previous && n == 1:
		return claimed{}, false
	case s.Claim == First:
		return known[0], true
	case s.Claim == Previous:
		return known[n-2], true
	default:
		return known[n-1], true
	}
}

// claim is the operation whose record the step presents; 0: the worker knows none.
func (w *worker) claim(s *Step) int {
	c, _ := w.presented(s)
	return c.operation
}

func (w *worker) record(s *Step) model.Record {
	c, _ := w.presented(s)
	return c.record
}

// presents reports whether the worker has what the step would have it present.
func presents(s *Step, o *model.Operation) bool { return o.Claim > 0 || s.Claim == NoClaim }

// call makes one call, with the message of each step.
func (w *worker) call(ctx context.Context, steps []Step, h *handle, ops []model.Operation, outcome func(error) model.Outcome) {
	var err error
	if len(steps) > 1 && h.batcher != nil {
		err = w.askBatch(ctx, h, ops)
	}
	for i := range ops {
		if len(steps) == 1 || h.batcher == nil {
			err = w.ask(ctx, &steps[i], h, &ops[i])
		}
		a := &ops[i].Answer
		a.Outcome = outcome(err)
		if a.Outcome != model.OK {
			*a = model.Answer{Outcome: a.Outcome, Error: err.Error(), Refusal: refusal(err)}
		}
	}
}

// learn takes up the claim that an answer brought, if the answer came.
func (w *worker) learn(s *Step, o *model.Operation) {
	if a := &o.Answer; s.Verb.Claims() && a.Outcome == model.OK && a.Yes {
		c := claimed{o.ID, a.Record()}
		w.claims[s.Key-1] = append(w.claims[s.Key-1], c)
		if w.learned != nil {
			w.learned[s.Key-1] = append(w.learned[s.Key-1], c)
		}
	}
}

// invoke fills in what the call is given, and says whether it can be made: there may be no such capability, or no claim
// to present, in a plan that was cut down or drawn for another store.
func (w *worker) invoke(s *Step, h *handle, o *model.Operation) bool {
	if s.Verb.Keyed() {
		o.Key = w.keys[s.Key-1]
	}
	now, free := w.now(), w.now()
	if w.clock.server {
		free = w.server() // what is meant as an instant of the server's is not the caller's to skew
	}
	o.Now = model.InstantOf(now)
	switch s.Verb {
	case model.Begin:
		o.Lease = s.Lease
		return h.store != nil
	case model.BeginAs:
		o.Lease, o.Nonce = s.Lease, fmt.Sprintf("n%d", s.Nonce)
		return h.rebeginner != nil
	case model.Complete:
		return h.store != nil
	case model.CompleteClaim:
		o.Claim = w.claim(s)
		return h.fencer != nil && presents(s, o)
	case model.CommitEffect:
		o.Claim, o.Effect = w.claim(s), w.effect(o, s.Effect)
		return h.committer != nil && presents(s, o)
	case model.CompleteResult:
		o.Claim, o.Result = w.claim(s), string(s.Result.bytes())
		return h.keeper != nil && presents(s, o)
	case model.Release:
		o.Now, o.Claim, o.Reason = model.InstantOf(free), w.claim(s), fmt.Sprintf("reason %d", o.ID)
		o.VisibleAt = model.InstantOf(free.Add(s.By))
		return h.releaser != nil && presents(s, o)
	case model.Extend:
		o.Claim, o.Lease = w.claim(s), s.Lease
		return h.extender != nil && presents(s, o)
	case model.Bury:
		o.Claim, o.Reason = w.claim(s), fmt.Sprintf("reason %d", o.ID)
		return h.buryer != nil && presents(s, o)
	case model.Replay:
		return h.buryer != nil
	case model.ApplyOnce:
		o.Effect = w.effect(o, s.Effect)
		return h.inbox != nil
	case model.Deliver:
		o.Delivery, o.Effect = s.Delivery, w.effect(o, s.Effect)
		return h.consumer != nil
	case model.Prune:
		o.Now, o.Before = model.NoInstant, model.InstantOf(free.Add(s.By))
		return h.pruner != nil
	case model.Lookup:
		o.Now = model.NoInstant
		return h.reader != nil
	default:
		panic("scenarios: no way to call " + string(s.Verb))
	}
}

// effect is one row of the ledger, with an id that names the call.
func (w *worker) effect(o *model.Operation, amount int64) model.Effect {
	return model.Effect{ID: fmt.Sprintf("e%d.%d %s", w.number, o.ID, o.Key.ID), Account: "account", Amount: amount}
}

// ask makes the call. What the store says is data; a store that panics is left to panic.
func (w *worker) ask(ctx context.Context, s *Step, h *handle, o *model.Operation) (err error) {
	var record model.Record
	told := model.Answer{}
	consumer, id, now := o.Key.Consumer, o.Key.ID, o.Now.Time().In(w.zone)
	switch o.Kind {
	case model.Begin:
		record, told.Yes, err = h.store.Begin(ctx, consumer, id, now, o.Lease)
	case model.BeginAs:
		record, told.Yes, err = h.rebeginner.BeginAs(ctx, consumer, id, o.Nonce, now, o.Lease)
	case model.Complete:
		err = h.store.Complete(ctx, consumer, id, now)
	case model.CompleteClaim:
		err = h.fencer.CompleteClaim(ctx, consumer, id, w.record(s), now)
	case model.CommitEffect:
		err = h.committer.CommitEffect(ctx, consumer, id, w.record(s), now, o.Effect)
	case model.CompleteResult:
		err = h.keeper.CompleteResult(ctx, consumer, id, w.record(s), now, s.Result.bytes())
	case model.Release:
		err = h.releaser.Release(ctx, consumer, id, w.record(s), now, o.VisibleAt.Time().In(now.Location()), o.Reason)
	case model.Extend:
		record, err = h.extender.Extend(ctx, consumer, id, w.record(s), now, o.Lease)
	case model.Bury:
		err = h.buryer.Bury(ctx, consumer, id, w.record(s), now, o.Reason)
	case model.Replay:
		err = h.buryer.Replay(ctx, consumer, id, now)
	case model.ApplyOnce:
		told.Yes, err = h.inbox.ApplyOnce(ctx, consumer, id, now, o.Effect)
	case model.Deliver:
		told.Told, err = h.consumer.Deliver(ctx, message(o))
		if err == nil && !told.Told.Known() {
			err = fmt.Errorf("the consumer answered %v, which is no result", told.Told)
		}
	case model.Prune:
		told.Count, err = h.pruner.Prune(ctx, o.Before.Time().In(w.zone))
	case model.Lookup:
		record, told.Yes, err = h.reader.Lookup(ctx, consumer, id)
	}
	if err == nil {
		o.Answer = told
		o.Answer.SetRecord(record)
	}
	return err
}

// message is what a delivery hands to a consumer.
func message(o *model.Operation) model.Message {
	return model.Message{
		Consumer: o.Key.Consumer, ID: o.Key.ID, Body: fmt.Appendf(nil, `{"amount": %d}`, o.Effect.Amount),
		Delivery: o.Delivery, Effect: o.Effect,
	}
}

// askBatch delivers several messages in one call.
func (w *worker) askBatch(ctx context.Context, h *handle, ops []model.Operation) error {
	batch := make([]model.Message, len(ops))
	for i := range ops {
		batch[i] = message(&ops[i])
	}
	results, err := h.batcher.DeliverBatch(ctx, batch)
	switch {
	case err != nil:
		return err
	case len(results) != len(batch):
		return fmt.Errorf("the consumer answered %d results for %d messages", len(results), len(batch))
	}
	for i, r := range results {
		if !r.Known() {
			return fmt.Errorf("the consumer answered %v, which is no result", r)
		}
		ops[i].Answer.Told = r
	}
	return nil
}

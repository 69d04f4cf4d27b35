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
	time   time.Duration // the plan's, since the epoch
	skew   time.Duration
	handle int // its opened value's number in this history; 0: not used yet
	claims [][]claimed
	// learned is what all workers of a stepped run learned, by key; nil where workers share nothing.
	learned [][]claimed
	last    int // the number of its latest operation, in the real tier
}

// claimed is one claim that a worker learned of: the operation that was answered with it, and the record.
type claimed struct {
	operation int
	record    model.Record
}

func newWorker(number, zone int, keys []model.Key) worker {
	return worker{number: number, keys: keys, zone: time.FixedZone("", zone), claims: make([][]claimed, len(keys))}
}

// now is the worker's clock, in its own time zone.
func (w *worker) now() time.Time { return epoch.Add(w.time + w.skew).In(w.zone) }

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

// call makes one call, unless it cannot be made: no such capability, no claim to present. A plan that was cut down
// still runs.
func (w *worker) call(ctx context.Context, s *Step, h *handle, o *model.Operation, outcome func(error) model.Outcome) {
	err := w.ask(ctx, s, h, o)
	o.Answer.Outcome = outcome(err)
	if o.Answer.Outcome != model.OK {
		o.Answer.Error, o.Answer.Refusal = err.Error(), refusal(err)
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

// invoke fills in what the call is given, and says whether it can be made.
func (w *worker) invoke(s *Step, h *handle, o *model.Operation) bool {
	if s.Verb.Keyed() {
		o.Key = w.keys[s.Key-1]
	}
	now := model.InstantOf(w.now())
	switch s.Verb {
	case model.Begin:
		o.Now, o.Lease = now, s.Lease
	case model.BeginAs:
		o.Now, o.Lease, o.Nonce = now, s.Lease, fmt.Sprintf("n%d", s.Nonce)
		return h.rebeginner != nil
	case model.Complete:
		o.Now = now
	case model.CompleteClaim:
		o.Now, o.Claim = now, w.claim(s)
		return h.fencer != nil && presents(s, o)
	case model.CommitEffect:
		o.Now, o.Claim = now, w.claim(s)
		o.Effect = model.Effect{ID: fmt.Sprintf("e%d.%d %s", w.number, o.ID, o.Key.ID), Account: "account", Amount: s.Effect}
		return h.committer != nil && presents(s, o)
	case model.CompleteResult:
		o.Now, o.Claim, o.Result = now, w.claim(s), string(s.Result.bytes())
		return h.keeper != nil && presents(s, o)
	case model.Release:
		o.Now, o.Claim, o.Reason = now, w.claim(s), fmt.Sprintf("reason %d", o.ID)
		o.VisibleAt = model.InstantOf(w.now().Add(s.By))
		return h.releaser != nil && presents(s, o)
	case model.Extend:
		o.Now, o.Claim, o.Lease = now, w.claim(s), s.Lease
		return h.extender != nil && presents(s, o)
	case model.Bury:
		o.Now, o.Claim, o.Reason = now, w.claim(s), fmt.Sprintf("reason %d", o.ID)
		return h.buryer != nil && presents(s, o)
	case model.Replay:
		o.Now = now
		return h.buryer != nil
	case model.Prune:
		o.Before = model.InstantOf(w.now().Add(s.By))
	case model.Lookup:
		return h.reader != nil
	default:
		panic("scenarios: no way to call " + string(s.Verb))
	}
	return true
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
	case model.Prune:
		told.Count, err = h.store.Prune(ctx, o.Before.Time().In(w.zone))
	case model.Lookup:
		record, told.Yes, err = h.reader.Lookup(ctx, consumer, id)
	}
	if err == nil {
		o.Answer = told
		o.Answer.SetRecord(record)
	}
	return err
}

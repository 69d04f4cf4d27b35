package scenarios

import (
	"context"
	"errors"
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

// worker is what one worker knows: its clock, and per key the claims that it learned of.
type worker struct {
	zone   *time.Location
	skew   time.Duration
	handle int     // its opened value's number in this history; 0: not used yet
	claims [][]int // by key: operations that were answered with a claim
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
	x := &execution{lane: l, plan: p, history: &model.History{
		Store: l.h.Name, Scenario: stepped, Epoch: model.InstantOf(epoch), Contract: l.h.Contract, Zones: p.Zones,
		Operations: make([]model.Operation, 0, len(p.Steps)),
	}}
	for _, zone := range p.Zones {
		x.workers = append(x.workers, worker{zone: time.FixedZone("", zone), claims: make([][]int, len(p.Keys))})
	}
	return x.watched(ctx)
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

// stepped names the tier in histories and reports.
const stepped = "stepped"

func (x *execution) step(ctx context.Context, s *Step) error {
	switch s.Verb {
	case ClockStep:
		x.time += s.By
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
	k := &x.workers[w-1]
	k.handle, k.claims = 0, make([][]int, len(x.plan.Keys))
	return nil
}

// handle opens the worker's handle if need be, and numbers it.
func (x *execution) handle(ctx context.Context, w int) (*handle, error) {
	h, err := x.lane.open(ctx, w)
	if err != nil {
		return nil, err
	}
	h.clock.Store(int64(x.time + x.workers[w-1].skew))
	if k := &x.workers[w-1]; k.handle == 0 {
		x.handles++
		k.handle = x.handles
	}
	if x.history.Capabilities == nil {
		x.history.Capabilities = h.kinds()
	}
	return h, nil
}

// now is a worker's clock, in its own time zone.
func (x *execution) now(w int) time.Time {
	k := &x.workers[w-1]
	return epoch.Add(x.time + k.skew).In(k.zone)
}

func (x *execution) tick() int64 {
	x.moment++
	return x.moment
}

// claim is the operation whose record the step presents; 0 if the worker knows none.
func (x *execution) claim(s *Step) int {
	known := x.workers[s.Worker-1].claims[s.Key-1]
	switch n := len(known); {
	case n == 0:
		return 0
	case s.Claim == First:
		return known[0]
	case s.Claim == Previous && n > 1:
		return known[n-2]
	case s.Claim == Previous:
		return 0
	default:
		return known[n-1]
	}
}

// call makes one call and records it. A step that cannot be taken (no such capability, no claim to present) is
// left out: a plan that was cut down still runs.
func (x *execution) call(ctx context.Context, s *Step) error {
	h, err := x.handle(ctx, s.Worker)
	if err != nil {
		return err
	}
	o := model.Operation{ID: len(x.history.Operations) + 1, Worker: s.Worker, Handle: x.workers[s.Worker-1].handle, Kind: s.Verb}
	if !x.invoke(s, h, &o) {
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
	o.Call = x.tick()
	o.CalledAt = x.serverTime()
	x.enter(&o)
	err = x.ask(callCtx, s, h, &o)
	if !x.leave() {
		return errGivenUp
	}
	o.Return = x.tick()
	o.ReturnedAt = x.serverTime()
	x.answer(ctx, s, &o, err, fault, callCtx.Err() != nil)
	x.history.Operations = append(x.history.Operations, o)
	if o.Fault != 0 && s.Reply == Lost {
		x.lane.warm(ctx, s.Worker, h) // the connection is a new one
	}
	if o.Granted() && !o.Unseen {
		k := &x.workers[s.Worker-1].claims[s.Key-1]
		*k = append(*k, o.ID)
	}
	return ctx.Err()
}

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

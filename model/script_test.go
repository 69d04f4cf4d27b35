package model_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

const (
	sec = time.Second
	ms  = time.Millisecond
)

// epoch is what the instants of these tests are offsets from: a multiple of every precision that they use.
var epoch = model.InstantOf(time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC))

func instant(d time.Duration) model.Instant { return epoch.Add(d) }

// call is one operation of a script, with its answer.
type call struct {
	o         model.Operation
	untokened bool
	closes    bool // of unknown outcome, and it cannot take effect any more
	rows      int  // effects found for it; -1: nobody looked
}

func newCall(k model.Kind) *call {
	c := &call{rows: -1}
	c.o.Kind, c.o.Worker, c.o.Handle = k, 1, 1
	if k.Keyed() {
		c.o.Key = model.Key{Consumer: "orders", ID: "m-1"}
	}
	return c
}

func timed(k model.Kind, now time.Duration) *call {
	c := newCall(k)
	c.o.Now = instant(now)
	return c
}

func begin(now time.Duration) *call {
	c := timed(model.Begin, now)
	c.o.Lease = 30 * sec
	return c
}

func beginAs(nonce string, now time.Duration) *call {
	c := timed(model.BeginAs, now)
	c.o.Nonce, c.o.Lease = nonce, 30*sec
	return c
}

func complete(now time.Duration) *call { return timed(model.Complete, now) }

func fenced(k model.Kind, claim int, now time.Duration) *call {
	c := timed(k, now)
	c.o.Claim = claim
	return c
}

func completeClaim(claim int, now time.Duration) *call {
	return fenced(model.CompleteClaim, claim, now)
}

func commit(claim int, now time.Duration, rows int) *call {
	return fenced(model.CommitEffect, claim, now).effect(rows)
}

func completeResult(claim int, now time.Duration, result string) *call {
	c := fenced(model.CompleteResult, claim, now)
	c.o.Result = result
	return c
}

func release(claim int, now, visibleAt time.Duration) *call {
	c := fenced(model.Release, claim, now)
	c.o.VisibleAt, c.o.Reason = instant(visibleAt), "try later"
	return c
}

func extend(claim int, now time.Duration) *call {
	return fenced(model.Extend, claim, now).lease(30 * sec)
}

func bury(claim int, now time.Duration) *call {
	c := fenced(model.Bury, claim, now)
	c.o.Reason = "poison"
	return c
}

func replay(now time.Duration) *call { return timed(model.Replay, now) }

func applyOnce(now time.Duration, rows int) *call { return timed(model.ApplyOnce, now).effect(rows) }

func deliver(now time.Duration, rows int) *call {
	c := timed(model.Deliver, now).effect(rows)
	c.o.Delivery = 1
	return c
}

func (c *call) told(r model.Result) *call { c.ok().o.Answer.Told = r; return c }
func (c *call) appliedNow() *call         { return c.told(model.ResultApplied) }
func (c *call) duplicate() *call          { return c.told(model.ResultDuplicate) }
func (c *call) inFlight() *call           { return c.told(model.ResultInFlight) }
func (c *call) buried() *call             { return c.told(model.ResultBuried) }

// over: nothing of it can take effect any more.
func (c *call) over() *call { c.closes = true; return c }

// faulty: a fault touched the call, and it was answered all the same.
func (c *call) faulty() *call { c.o.Fault = 1; return c }

func prune(before time.Duration) *call {
	c := newCall(model.Prune)
	c.o.Before = instant(before)
	return c
}

func lookup() *call { return newCall(model.Lookup) }

func (c *call) lease(d time.Duration) *call { c.o.Lease = d; return c }
func (c *call) zeroNow() *call              { c.o.Now = model.NoInstant; return c }
func (c *call) key(consumer, id string) *call {
	c.o.Key = model.Key{Consumer: consumer, ID: id}
	return c
}
func (c *call) handle(n int) *call { c.o.Worker, c.o.Handle = n, n; return c }
func (c *call) effect(rows int) *call {
	c.rows, c.o.Effect.Account, c.o.Effect.Amount = rows, "acc", 7
	return c
}

// around says between which two instants of the server's clock the call ran.
func (c *call) around(from, to time.Duration) *call {
	c.o.CalledAt, c.o.ReturnedAt = instant(from), instant(to)
	return c
}

// The answers.

func (c *call) ok() *call { c.o.Answer.Outcome = model.OK; return c }

// claimed grants: attempts as told, the lease from the call's now.
func (c *call) claimed(attempts int) *call {
	c.ok().o.Answer.Yes = true
	c.o.Answer.SetRecord(processing(attempts, 0, 0))
	c.o.Answer.LeaseUntil, c.o.Answer.UpdatedAt = c.o.Now.Add(c.o.Lease), c.o.Now
	return c
}

func (c *call) until(d time.Duration) *call   { c.o.Answer.LeaseUntil = instant(d); return c }
func (c *call) updated(d time.Duration) *call { c.o.Answer.UpdatedAt = instant(d); return c }
func (c *call) token(s string) *call          { c.o.Answer.Token, c.untokened = s, s == ""; return c }
func (c *call) because(s string) *call        { c.o.Answer.Reason = s; return c }
func (c *call) result(s string) *call {
	c.o.Answer.Result, c.o.Answer.HasResult = s, true
	return c
}

func (c *call) count(n int) *call { c.ok().o.Answer.Count = n; return c }

func (c *call) not(r model.Record) *call { // not claimed
	c.ok().o.Answer.SetRecord(r)
	return c
}

func (c *call) found(r model.Record) *call {
	c.ok().o.Answer.Yes = true
	c.o.Answer.SetRecord(r)
	return c
}

func (c *call) yes() *call { c.ok().o.Answer.Yes = true; return c }

func (c *call) refusal(o model.Outcome, r model.Refusal) *call {
	c.o.Answer.Outcome, c.o.Answer.Refusal, c.o.Answer.Error = o, r, "text"
	return c
}

func (c *call) fenced() *call   { return c.refusal(model.NotApplied, model.Fenced) }
func (c *call) notFound() *call { return c.refusal(model.NotApplied, model.NotFound) }
func (c *call) refused() *call  { return c.refusal(model.NotApplied, model.Refused) }

// failed: the store's own untyped error, with no fault to explain it.
func (c *call) failed() *call { return c.refusal(model.Unknown, model.Failed) }

// lost: a fault took the reply, or the request.
func (c *call) lost() *call { c.failed().o.Fault = 1; return c }

// kept: a fault kept the call from the store, and that is proved.
func (c *call) kept() *call { c.refusal(model.NotApplied, model.Failed).o.Fault = 1; return c }

// applied: lost, but the kit saw the whole reply pass.
func (c *call) applied() *call { c.lost().o.Applied = true; return c }

// The records that answers tell.

func processing(attempts int, until, updated time.Duration) model.Record {
	return model.Record{State: model.Processing, Attempts: attempts, LeaseUntil: instant(until).Time(), UpdatedAt: instant(updated).Time()}
}

func done(attempts int, updated time.Duration) model.Record {
	return model.Record{State: model.Done, Attempts: attempts, UpdatedAt: instant(updated).Time()}
}

func dead(attempts int) model.Record { return model.Record{State: model.Dead, Attempts: attempts} }

func with(r model.Record, change func(*model.Record)) model.Record { change(&r); return r }

// history makes the calls, one after the other, a history.
func history(c model.Contract, calls []*call) *model.History {
	h := &model.History{Store: "table", Epoch: epoch, Contract: c}
	for i, call := range calls {
		o := call.o
		o.ID, o.Call, o.Return = i+1, int64(2*i+1), int64(2*i+2)
		if call.closes {
			o.Closed = o.Return
		}
		if o.Granted() && o.Answer.Token == "" && !call.untokened {
			o.Answer.Token = strconv.Itoa(100 * o.ID)
		}
		if call.rows >= 0 {
			o.Effect.ID = "e" + strconv.Itoa(o.ID)
			h.LedgerRead = 1 << 40
			for range call.rows {
				h.Effects = append(h.Effects, model.EffectRow{Key: o.Key, Effect: o.Effect})
			}
		}
		if o.Fault > 0 && len(h.Faults) == 0 {
			h.Faults = []model.Fault{{ID: 1, Name: "reply lost", From: 1}}
		}
		h.Operations = append(h.Operations, o)
	}
	return h
}

// row is one row of a table: what the record may be after the given calls and then one more. want lists the
// states, in the words of Describe; none: the answer is refused.
type row struct {
	name     string
	contract model.Contract
	given    []*call
	then     *call
	want     []string
}

func (r row) run(t *testing.T, rules *model.Rules) {
	t.Helper()
	calls := slices.Concat(r.given, []*call{r.then})
	h := history(r.contract, calls)
	if err := h.Validate(); err != nil {
		t.Fatalf("the row is no history: %v", err)
	}
	now := model.Fresh()
	events := h.Events()
	for i := range events {
		before := describe(h, now)
		now = now.Next(rules, &events[i])
		if i < len(events)-1 && len(now) == 0 {
			t.Fatalf("given call %d was refused in %q:\n%s", i+1, before, h.PrintOperation(&h.Operations[i]))
		}
	}
	want := slices.Sorted(slices.Values(r.want))
	if got := describe(h, now); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q\nafter\n%s", got, want, h.Print())
	}
}

func describe(h *model.History, p model.Possible) []string {
	var all []string
	for _, s := range p {
		all = append(all, s.Describe(h))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func run(t *testing.T, rows []row) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] {
			t.Errorf("two rows are named %q", r.name)
		}
		seen[r.name] = true
		t.Run(r.name, func(t *testing.T) { r.run(t, model.NewRules(r.contract)) })
	}
}

func calls(cs ...*call) []*call { return cs }

// can lists the states that an accepted answer leads to.
func can(states ...string) []string { return states }

// refusedAnswer is what a row wants where the contract forbids the answer.
var refusedAnswer []string

func claimedBy(id, attempts int, until time.Duration) string {
	return "PROCESSING, claimed by #" + strconv.Itoa(id) + ", attempts " + strconv.Itoa(attempts) + ", lease until " + until.String()
}

func doneBy(id int, at time.Duration) string {
	text := "DONE at " + at.String()
	if id > 0 {
		text += " by the claim of #" + strconv.Itoa(id)
	}
	return text
}

func releasedBy(id, attempts int, until string) string {
	return strings.TrimSuffix(claimedBy(id, attempts, 0), "0s") + until + ", released"
}

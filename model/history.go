package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// History is what happened to one store, as plain data: who called what, when, and what was answered; which effects
// were found; which faults were at work. It prints ([History.Print]) and parses ([Parse]), and the text is the same
// thing: a program in any language may write one and have it judged.
type History struct {
	Store    string // the harness's name
	Scenario string
	Seed     uint64
	// Epoch is what the printed instants are offsets from.
	Epoch Instant
	// Contract holds the facts. AcceptsKey is not a fact that prints: it is nil here.
	Contract Contract
	// Capabilities are the optional interfaces that were found at open, by their kinds, sorted.
	Capabilities []Kind
	// Zones are the workers' time zones in seconds east of UTC, by worker from 1; missing ones are UTC.
	Zones []int

	Faults     []Fault
	Marks      []Mark
	Operations []Operation
	// LedgerRead is when the effects were read; 0: nobody looked, and nothing follows from an absent effect.
	LedgerRead int64
	Effects    []EffectRow
}

// Fault is one fault window: what was broken for whom, between two moments of the sequence.
type Fault struct {
	ID       int // from 1
	Name     string
	Worker   int    // 0: everyone
	From, To int64  // To 0: it never healed
	Detail   string // what is known of it, for people: what was broken, and how far it had come
}

// Mark says that the run came to a place worth coming to, and how often.
type Mark struct {
	Name  string
	Count int
}

// EffectRow is one effect that the outside world counted.
type EffectRow struct {
	Key    Key
	Effect Effect
}

// Event is one operation as judging sees it: with what the rest of the history tells about it.
type Event struct {
	*Operation
	// Presented is the claim that the call presented, Granted the one that its answer gave, both named by the
	// first operation that was answered with it: a nonce presented twice is one claim with two answers.
	Presented, Grants int
	// PresentedCall is when the operation that the presented claim is named by was called.
	PresentedCall int64
	// Rows counts the effects found for this call; -1: nobody looked.
	Rows int
	// Alone: no other operation was open beside it, so that a Prune's count is exact.
	Alone bool
	// Disputed: beside it another claim of the same key was granted through the same handle, so that nobody can say
	// which of them the handle holds.
	Disputed bool
	// Contended: beside a delivery another one of the same message was open.
	Contended bool
	// Latest is the furthest that any worker's clock had come by the end of the operation; only kept beside deliveries.
	Latest Instant
}

// Events prepares the operations for judging, in order of their calls.
func (h *History) Events() []Event {
	events := make([]Event, len(h.Operations))
	rows := h.rows()
	first := h.firstAnswers()
	last := int64(0)
	for i := range h.Operations {
		last = max(last, h.Operations[i].Return)
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		e := Event{Operation: o, Presented: o.Claim, Grants: o.ID, Rows: -1}
		if id, again := first[o.ID]; again {
			e.Grants = id
		}
		if id, again := first[o.Claim]; again {
			e.Presented = id
		}
		if e.Presented > 0 {
			e.PresentedCall = h.Operations[e.Presented-1].Call
		}
		if o.Effect.ID != "" && h.LedgerRead > 0 {
			e.Rows = rows[o.Effect.ID]
			if e.Rows == 0 && h.LedgerRead < last && (o.End() == 0 || o.End() > h.LedgerRead) {
				e.Rows = -1 // its effect may have come after the reading, and have been noticed since
			}
		}
		events[i] = e
	}
	markAlone(events)
	markDisputed(events)
	markDeliveries(events)
	return events
}

// markAlone finds the operations beside which no other one was open. Calls are in order.
func markAlone(events []Event) {
	open, last := false, int64(0) // of the operations before: whether one never ends, and when the last one ends
	for i := range events {
		e := &events[i]
		end := e.End()
		e.Alone = !open && last < e.Call && end != 0 && (i+1 == len(events) || end < events[i+1].Call)
		open, last = open || end == 0, max(last, end)
	}
}

// markDisputed finds the claims, and the completions by key, beside which their handle was granted another claim.
func markDisputed(events []Event) {
	if !slices.ContainsFunc(events, func(e Event) bool { return !e.Alone }) {
		return
	}
	type holder struct {
		key    Key
		handle int
	}
	claims, rest := map[holder][]*Event{}, map[holder][]*Event{}
	for i := range events {
		e := &events[i]
		of := holder{e.Key, e.Handle}
		switch {
		case e.Granted():
			claims[of] = append(claims[of], e)
		case e.Kind == Complete:
			rest[of] = append(rest[of], e)
		}
	}
	for of, cs := range claims {
		for _, e := range append(rest[of], cs...) {
			e.Disputed = slices.ContainsFunc(cs, func(c *Event) bool {
				return c != e && c.Call <= e.end() && e.Call <= c.Return
			})
		}
	}
}

// markDeliveries finds the deliveries that ran beside another one of their message, and how far the clocks had come.
func markDeliveries(events []Event) {
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Deliver }) {
		return
	}
	last := map[Key]*Event{} // the one that ends last so far
	latest := make([]Instant, len(events))
	for i := range events {
		e := &events[i]
		latest[i] = max(e.Now, e.ReturnedAt)
		if i > 0 {
			latest[i] = max(latest[i], latest[i-1])
		}
		if e.Kind != Deliver {
			continue
		}
		before := last[e.Key]
		if before != nil && before.end() > e.Call {
			before.Contended, e.Contended = true, true
		}
		if before == nil || e.end() > before.end() {
			last[e.Key] = e
		}
	}
	for i := range events {
		end := events[i].end()
		n, _ := slices.BinarySearchFunc(events, end, func(e Event, end int64) int { return cmp.Compare(e.Call, end) })
		events[i].Latest = latest[max(n-1, i)]
	}
}

// end is End with the end of an open operation at the end of time.
func (e *Event) end() int64 {
	if end := e.End(); end != 0 {
		return end
	}
	return math.MaxInt64
}

func (h *History) rows() map[string]int {
	if h.LedgerRead == 0 {
		return nil
	}
	rows := make(map[string]int, len(h.Effects))
	for i := range h.Effects {
		rows[h.Effects[i].Effect.ID]++
	}
	return rows
}

// firstAnswers maps each later answer of one claim to the first one. The token names a claim for all time; where the
// store tells none, it is the same attempt, as long as nobody is known to have completed the message in between.
func (h *History) firstAnswers() map[int]int {
	if !slices.ContainsFunc(h.Operations, func(o Operation) bool { return o.Kind == BeginAs }) {
		return nil
	}
	type claim struct {
		key          Key
		nonce, token string
		attempts     int
	}
	seen := map[claim]int{}
	first := map[int]int{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind != BeginAs || !o.Granted() {
			continue
		}
		c := claim{key: o.Key, nonce: o.Nonce, token: o.Answer.Token}
		if c.token == "" {
			c.attempts = o.Answer.Attempts
		}
		if id, again := seen[c]; again && (c.token != "" || !h.completedBetween(&h.Operations[id-1], o)) {
			first[o.ID] = id
		} else {
			seen[c] = o.ID
		}
	}
	return first
}

// completedBetween reports whether the message of two claims was completed for certain after the one and before the
// other: the second cannot be the first then.
func (h *History) completedBetween(first, later *Operation) bool {
	return slices.ContainsFunc(h.Operations[first.ID:later.ID-1], func(o Operation) bool {
		switch o.Kind {
		case Complete, CompleteClaim, CommitEffect, CompleteResult:
			return o.Key == first.Key && o.Answer.Outcome == OK && o.Call > first.Return && o.Return > 0 && o.Return < later.Call
		}
		return false
	})
}

// Validate says what makes a history unfit for judging, naming the operation; nil if nothing does. It checks the
// recorder, not the store: numbers out of order, an answer before its call, a claim that nobody was granted.
func (h *History) Validate() error {
	if err := h.Contract.Validate(); err != nil {
		return err
	}
	moments := make([]int64, 0, 2*len(h.Operations))
	last := int64(0)
	for i := range h.Operations {
		o := &h.Operations[i]
		if err := h.validate(i, o, last); err != nil {
			return fmt.Errorf("model: history: operation %d: %w", i+1, err)
		}
		last = o.Call
		moments = append(moments, o.Call)
		if o.Return != 0 {
			moments = append(moments, o.Return)
		}
	}
	slices.Sort(moments)
	for i := 1; i < len(moments); i++ {
		if moments[i] == moments[i-1] {
			return fmt.Errorf("model: history: two calls or returns share the moment %d", moments[i])
		}
	}
	for i, f := range h.Faults {
		if f.ID != i+1 || f.Name == "" || f.From <= 0 || (f.To != 0 && f.To < f.From) {
			return fmt.Errorf("model: history: fault %d: wrong number, name or window", i+1)
		}
	}
	return nil
}

func (h *History) validate(i int, o *Operation, last int64) error {
	sh, known := shapes[o.Kind]
	switch {
	case !known:
		return fmt.Errorf("unknown kind %q", o.Kind)
	case o.ID != i+1:
		return fmt.Errorf("numbered %d", o.ID)
	case o.Worker < 1 || o.Handle < 1:
		return fmt.Errorf("worker %d, handle %d: both count from 1", o.Worker, o.Handle)
	case o.Call <= last:
		return fmt.Errorf("called at %d, not after the call before it (%d)", o.Call, last)
	case o.Return != 0 && o.Return <= o.Call:
		return fmt.Errorf("returned at %d, not after its call at %d", o.Return, o.Call)
	case o.Closed != 0 && (o.Known() || o.Closed <= o.Call || o.Closed < o.Return):
		return fmt.Errorf("closed at %d: only an unknown outcome closes, and not before it returned", o.Closed)
	case o.Return == 0 && o.Answer != Answer{}:
		return fmt.Errorf("never returned, and has an answer")
	case o.Return != 0 && (o.Answer.Outcome == OK) != (o.Answer.Refusal == NoError):
		return fmt.Errorf("outcome %v beside refusal %q", o.Answer.Outcome, o.Answer.Refusal)
	case o.Late && o.Return != 0:
		return fmt.Errorf("marked as late, and returned")
	case o.Applied && o.Known():
		return fmt.Errorf("marked as applied beside a known outcome")
	case o.Fault < 0 || o.Fault > len(h.Faults):
		return fmt.Errorf("names fault %d of %d", o.Fault, len(h.Faults))
	case sh.claim && (o.Claim < 0 || o.Claim > i):
		return fmt.Errorf("presents the claim of operation %d, which is no earlier one", o.Claim)
	case sh.claim && o.Claim > 0 && !h.Operations[o.Claim-1].Granted():
		return fmt.Errorf("presents the claim of operation %d, which was granted none", o.Claim)
	case sh.claim && o.Claim > 0 && h.Operations[o.Claim-1].Return > o.Call:
		return fmt.Errorf("presents the claim of operation %d, which was not answered yet", o.Claim)
	}
	return nil
}

// Offset is an instant as the history prints it: its distance from the epoch.
func (h *History) Offset(i Instant) time.Duration { return i.Sub(h.Epoch) }

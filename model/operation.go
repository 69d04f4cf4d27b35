package model

import (
	"fmt"
	"time"
)

// Kind of an operation: which method was called.
type Kind string

// The kinds, in the words of plans and histories.
const (
	Begin          Kind = "begin"
	BeginAs        Kind = "begin-as"
	Complete       Kind = "complete"
	CompleteClaim  Kind = "complete-claim"
	CommitEffect   Kind = "commit-effect"
	CompleteResult Kind = "complete-result"
	Release        Kind = "release"
	Extend         Kind = "extend"
	Bury           Kind = "bury"
	Replay         Kind = "replay"
	ApplyOnce      Kind = "apply-once"
	Deliver        Kind = "deliver"
	Prune          Kind = "prune"
	Lookup         Kind = "lookup"
)

// shape says which inputs a kind has and what it answers, so that printing, parsing and checking a history agree.
type shape struct {
	key, delivery, nonce, claim, now, lease, before, visibleAt, reason, result, effect bool

	record bool   // answers a Record
	yes    string // what the bool of the answer says; empty: no bool
	no     string
	count  bool
	told   bool // answers a Result
}

var shapes = map[Kind]shape{
	Begin:          {key: true, now: true, lease: true, record: true, yes: "claimed", no: "not-claimed"},
	BeginAs:        {key: true, nonce: true, now: true, lease: true, record: true, yes: "claimed", no: "not-claimed"},
	Complete:       {key: true, now: true},
	CompleteClaim:  {key: true, claim: true, now: true},
	CommitEffect:   {key: true, claim: true, now: true, effect: true},
	CompleteResult: {key: true, claim: true, now: true, result: true},
	Release:        {key: true, claim: true, now: true, visibleAt: true, reason: true},
	Extend:         {key: true, claim: true, now: true, lease: true, record: true},
	Bury:           {key: true, claim: true, now: true, reason: true},
	Replay:         {key: true, now: true},
	ApplyOnce:      {key: true, now: true, effect: true, yes: "applied", no: "not-applied-again"},
	Deliver:        {key: true, delivery: true, now: true, effect: true, told: true},
	Prune:          {before: true, count: true},
	Lookup:         {key: true, record: true, yes: "found", no: "not-found"},
}

// Known reports whether there is such a kind.
func (k Kind) Known() bool { _, known := shapes[k]; return known }

// Claims reports whether a successful answer of this kind can grant a claim.
func (k Kind) Claims() bool { return k == Begin || k == BeginAs }

// Fenced reports whether a call of this kind presents a claim.
func (k Kind) Fenced() bool { return shapes[k].claim }

// Keyed reports whether a call of this kind concerns one key.
func (k Kind) Keyed() bool { return shapes[k].key }

// Key of a record. Two keys are the same only if both parts are equal byte for byte.
type Key struct{ Consumer, ID string }

// String quotes both parts, so that no two keys print alike.
func (k Key) String() string { return fmt.Sprintf("%+q/%+q", k.Consumer, k.ID) }

// Refusal classifies an error that a store answered.
type Refusal string

// The refusals. Anything without a sentinel is Failed.
const (
	NoError  Refusal = ""
	Fenced   Refusal = "fenced"
	NotFound Refusal = "not-found"
	Refused  Refusal = "refused"
	Failed   Refusal = "failed"
)

// Answer is what came back from one call.
type Answer struct {
	Outcome Outcome
	Refusal Refusal
	Error   string // the text of the error, for people
	// Yes is the bool of the answer: claimed, found, applied.
	Yes        bool
	Told       Result // what a delivery came to
	Count      int
	State      State
	Attempts   int
	LeaseUntil Instant // NoInstant: not told
	UpdatedAt  Instant
	Token      string
	Reason     string
	Result     string
	HasResult  bool // tells an empty result from none
}

// SetRecord copies a record into the answer.
func (a *Answer) SetRecord(r Record) {
	a.State, a.Attempts, a.Token, a.Reason = r.State, r.Attempts, r.Token, r.Reason
	a.LeaseUntil, a.UpdatedAt = InstantOf(r.LeaseUntil), InstantOf(r.UpdatedAt)
	a.Result, a.HasResult = string(r.Result), r.Result != nil
}

// Record is the record that the answer carried.
func (a *Answer) Record() Record {
	r := Record{
		State: a.State, Attempts: a.Attempts, Token: a.Token, Reason: a.Reason,
		LeaseUntil: a.LeaseUntil.Time(), UpdatedAt: a.UpdatedAt.Time(),
	}
	if a.HasResult {
		r.Result = []byte(a.Result)
	}
	return r
}

// Operation is one call of one worker: its invocation, its response, and when each happened.
type Operation struct {
	// ID is the operation's number in its history, from 1 in the order of the calls.
	ID     int
	Worker int // from 1
	// Handle is the opened value that was called, from 1, another after each crash.
	Handle int
	Kind   Kind
	Key    Key

	// Delivery counts the deliveries of one message, from 1.
	Delivery int
	Nonce    string
	// Claim is the operation whose record was presented as the claim.
	Claim     int
	Now       Instant
	Lease     time.Duration
	Before    Instant
	VisibleAt Instant
	Reason    string
	Result    string
	Effect    Effect

	// Call, Return and Closed are drawn from one atomic sequence, from 1. Return 0: it never came back. Closed,
	// for an unknown outcome, is when it can no longer take effect; 0: nothing is known.
	Call, Return, Closed int64
	// CalledAt and ReturnedAt are the server's time around the call; NoInstant where the caller's clock decides.
	CalledAt, ReturnedAt Instant

	Answer Answer
	// Unseen marks an answer that the worker never learned, because the kit lost it in process. It is judged;
	// the worker acted without it.
	Unseen bool
	// Applied is set where the kit knows that an unknown outcome took effect: the server's whole reply was seen.
	Applied bool
	// Late marks a call that had not returned when its bound was over, while control operations went on.
	Late bool
	// Fault numbers the fault window that touched the call; 0: none. An error without a fault is the store's own.
	Fault int
}

// Known reports whether the answer can be judged: the call came back with a known outcome.
func (o *Operation) Known() bool { return o.Return > 0 && o.Answer.Outcome != Unknown }

// Granted reports whether the call is known to have been answered with a claim.
func (o *Operation) Granted() bool {
	return o.Kind.Claims() && o.Answer.Outcome == OK && o.Answer.Yes && o.Return > 0
}

// End is the last moment at which the operation can take effect; 0: nothing is known.
func (o *Operation) End() int64 {
	if o.Known() {
		return o.Return
	}
	return o.Closed
}

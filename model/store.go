// Package model is the contract of a message-dedup store as plain data and pure functions: what a store is
// ([Store] and the optional interfaces), what it promises ([Contract]), what happened to it ([History]), and what
// it may answer ([Step], [Possible]).
//
// The package imports the standard library alone and does no I/O, so that a store, a checker and a recorded
// history in any language can share it. Every function is safe for concurrent use: nothing here has state.
package model

import (
	"context"
	"fmt"
	"time"
)

// State of one record. The zero State is Absent: no record is kept under the key.
type State string

// The states of a record. The values are the words that document A's stores write, so that a user's own
// column can be compared with them as it is.
const (
	Absent     State = ""
	Processing State = "PROCESSING" // claimed; whoever holds the claim works under a lease
	Done       State = "DONE"       // finished; remembered until Prune forgets it
	Dead       State = "DEAD"       // given up; only Replay makes it claimable again
)

// Record is what a store tells about one key. A field that a store does not keep stays zero; the [Contract] says
// which. Instants are compared as instants: their location does not matter.
type Record struct {
	State State
	// Attempts counts the claims of this key, from 1, since the record was made.
	Attempts int
	// LeaseUntil is when the claim may be taken over: at this instant, not before. Zero unless State is Processing.
	LeaseUntil time.Time
	// UpdatedAt is when the record last changed hands or state: the claim's now, or the completion's.
	UpdatedAt time.Time

	// Token identifies one claim for all time (also across Prune and restart). Empty: Attempts is the token.
	Token string
	// Reason is why a claim was released or buried, as its owner told it.
	Reason string
	// Result is what a ResultKeeper keeps for duplicates.
	Result []byte
}

// Store is the contract's base: three calls, each atomic per key. Every method may be called from several
// goroutines and several processes at once, and must do its work once per call: an implementation never repeats a
// call by itself, and neither may its driver.
//
// A key is the pair (consumer, messageID); two keys are the same only if both parts are equal byte for byte.
type Store interface {
	// Begin claims a message: absent or expired is claimed (true), a live claim of anyone and DONE are not
	// (false, with the record as it stands). now is the caller's clock; a lease ends at now+lease, from which
	// instant on the claim may be taken over with one attempt more.
	Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Record, bool, error)

	// Complete makes a claimed message DONE, clears the lease and sets UpdatedAt to now. A message without a
	// record is an error. It carries no token, so a late owner cannot be told from the current one: see [Fencer].
	Complete(ctx context.Context, consumer, messageID string, now time.Time) error

	// Prune removes every DONE record whose UpdatedAt lies before the given instant and says how many. It never
	// touches a claim, live or expired.
	Prune(ctx context.Context, before time.Time) (int, error)
}

// Rebeginner makes a lost reply harmless: the same nonce presented again is answered as its owner, with the
// record unchanged, while its lease lives; in every other state BeginAs is Begin. A nonce names one delivery,
// never a worker. Each presentation is an operation of its own in the history; an adapter never repeats a call
// by itself.
type Rebeginner interface {
	BeginAs(ctx context.Context, consumer, messageID, nonce string, now time.Time, lease time.Duration) (Record, bool, error)
}

// Fencer completes by claim instead of by key: only the claim that is current may complete, whoever asks. claim
// is the record that Begin answered. A claim that was taken over gets [ErrFenced]; repeating one's own completion
// is ok and changes nothing.
type Fencer interface {
	CompleteClaim(ctx context.Context, consumer, messageID string, claim Record, now time.Time) error
}

// Effect is what a committing store writes beside DONE: one row of the kit's ledger.
type Effect struct {
	// ID is unique per attempt and drawn by the plan, so that each row found later names the call that wrote it.
	ID      string
	Account string
	Amount  int64
	_       struct{}
}

// EffectCommitter writes the effect and DONE in one transaction: both or neither. Its fencing is [Fencer]'s; a
// repeated call of the claim that completed is ok and writes no second effect.
type EffectCommitter interface {
	CommitEffect(ctx context.Context, consumer, messageID string, claim Record, now time.Time, effect Effect) error
}

// Inbox is the store without a claim: mark and effect in one transaction, or neither. applied is false, without
// an error, for a message that was marked before.
type Inbox interface {
	ApplyOnce(ctx context.Context, consumer, messageID string, now time.Time, effect Effect) (applied bool, err error)
	Prune(ctx context.Context, before time.Time) (int, error)
}

// ResultKeeper keeps the bytes of a result with DONE; a later Begin brings them back in its record.
type ResultKeeper interface {
	CompleteResult(ctx context.Context, consumer, messageID string, claim Record, now time.Time, result []byte) error
}

// Releaser gives a claim back before its lease is over: the message is claimable from visibleAt on (at once, if
// that is past), and the reason is kept. It is how a failed handler gets a fast retry.
type Releaser interface {
	Release(ctx context.Context, consumer, messageID string, claim Record, now, visibleAt time.Time, reason string) error
}

// Extender prolongs a live claim to now+lease (or keeps the later of the two ends) and returns the record. The
// token stays.
type Extender interface {
	Extend(ctx context.Context, consumer, messageID string, claim Record, now time.Time, lease time.Duration) (Record, error)
}

// DeadLetterer gives up on a message and, after the fix, opens it again. Replay keeps the attempts, makes the
// message claimable at once, and makes every earlier claim stale.
type DeadLetterer interface {
	Bury(ctx context.Context, consumer, messageID string, claim Record, now time.Time, reason string) error
	Replay(ctx context.Context, consumer, messageID string, now time.Time) error
}

// Reader looks a record up without changing it. found is false where nothing is kept.
type Reader interface {
	Lookup(ctx context.Context, consumer, messageID string) (record Record, found bool, err error)
}

// Applied is one effect as the outside world counted it.
type Applied struct {
	Consumer, MessageID string
	Effect              Effect
}

// Message is one delivery to a whole consumer.
type Message struct {
	Consumer, ID string
	Body         []byte
	// Delivery is 1 at the first delivery and counts up.
	Delivery int
	Effect   Effect
}

// Result of a delivery, in document A's words: APPLIED, DUPLICATE, IN_FLIGHT; and buried, for a dead letter.
type Result int

// The results of a delivery.
const (
	ResultApplied   Result = iota // the effect happened now
	ResultDuplicate               // it had happened before: acknowledge
	ResultInFlight                // somebody else is at it: do not acknowledge
	ResultBuried                  // a dead letter: acknowledge, run nothing
)

func resultWords() []string { return []string{"applied", "duplicate", "in-flight", "buried"} }

// String is the word that histories use.
func (r Result) String() string {
	if r < 0 || int(r) >= len(resultWords()) {
		return fmt.Sprintf("result-%d", int(r))
	}
	return resultWords()[r]
}

// Known reports whether there is such a result.
func (r Result) Known() bool { return r >= 0 && int(r) < len(resultWords()) }

func parseResult(word string) (Result, error) {
	for r, w := range resultWords() {
		if w == word {
			return Result(r), nil
		}
	}
	return 0, fmt.Errorf("%q is no result of a delivery", word)
}

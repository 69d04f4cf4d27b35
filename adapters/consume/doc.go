// Package consume is the consume loop over any [model.Store]: claim, run the handler, finish. It turns a broker's
// at-least-once delivery into one business effect, as far as the store's capabilities and the effect allow.
//
//	loop, err := consume.New(store, "billing", consume.Options{})
//	...
//	result, err := loop.Deliver(ctx, message.ID, func(ctx context.Context, claim consume.Claim) error {
//		return charge(ctx, claim.EffectKey(), message)
//	})
//	if err == nil {
//		message.Ack() // APPLIED, DUPLICATE or buried
//	} else {
//		message.Nack() // the broker delivers it again, and that delivery finds what happened
//	}
//
// The rule for the broker is that one line: no error, acknowledge; an error, do not. Beside an error the result is
// ResultInFlight, "do not acknowledge", also for a caller who looks at the result alone; the one exception is the
// delivery that buries its message, which answers ResultBuried and [ErrBuried], and where either is safe.
//
// # What the loop guarantees
//
//   - The handler runs only under a claim: never beside another's live lease, never on DONE, and never because the
//     store could not be asked.
//   - DONE is written after the handler succeeded, never before. A handler that fails, panics or dies with its
//     process leaves the lease to run out; then another delivery takes over. A panic is not recovered: it goes on to
//     the caller, with its own stack, after the heartbeat has ended.
//   - A message under a live lease is not acknowledged: its owner may yet crash.
//   - The instant of completion is read after the handler has run. With the claim's instant the dedup window would
//     be shorter by the time that the handler took.
//   - Once the handler has succeeded, the end of the caller's context no longer stops the completion, which has
//     [Options].FinishWithin for itself: a shutdown in that moment would repeat the effect.
//   - No call to the store is ever repeated by the loop, nor is the handler. A lost answer is an error, and the
//     next delivery asks the store. After a Begin without an answer, [Again] lets the same delivery ask at
//     once instead of waiting for a lease that may be its own.
//
// # What it does not
//
// Deliver runs the handler and then completes: two steps. A crash or a lost call between them runs the handler again,
// so an effect outside the store (a charge, a mail) happens at least once, and [ErrUnrecorded] says when that is in
// doubt. Give the other side [Claim.EffectKey] as its idempotency key, or let a unique key of the business table
// refuse the repeat. A handler that works past its lease without a heartbeat runs beside its successor: fencing keeps
// the record right, not the effect.
//
// One effect exactly takes three things at once: a stable message id made by the producer, effect and DONE in one
// transaction ([Loop.DeliverEffect], [Loop.DeliverCommitted]), and a dedup window longer than the broker's longest
// redelivery. The window is the caller's: call the store's Prune with now minus the window.
//
// Call Deliver when work starts, not when a message is fetched ahead: the lease runs from the call.
//
// # What each capability buys
//
// Optional interfaces are looked for once, in New; [Loop.Capabilities] says what was found, since a wrapper around a
// store hides its optional methods without a word.
//
//   - Fencer: a claim that was taken over cannot complete ([ErrClaimLost]). Without it a late owner cannot be told
//     from the current one, and its Deliver answers APPLIED.
//   - Rebeginner: a lost answer to Begin costs no lease ([Again]).
//   - EffectCommitter: effect and DONE together ([Loop.DeliverEffect]).
//   - ResultKeeper: duplicates get the first run's result ([Loop.DeliverResult]).
//   - Extender: short leases for long handlers (Options.Heartbeat).
//   - Releaser: a retry before the lease is over (Options.RetryIn), for errors marked by [Unapplied] alone.
//   - DeadLetterer: a poison message ends as a dead letter (Options.BuryAfter).
package consume

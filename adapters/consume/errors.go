package consume

import (
	"errors"
	"fmt"
	"strings"

	"github.com/effectonce/effectonce/model"
)

// The errors of a delivery, beside those of the handler and of the store, which are wrapped. More than one may hold.
var (
	// ErrInFlight: another delivery holds the message. See [InFlightError] for until when.
	ErrInFlight = errors.New("consume: message is in flight")
	// ErrClaimLost: the claim was not this delivery's any more. With [ErrUnrecorded] the handler had succeeded under
	// it, so an effect outside the store happened and may happen again; without it nothing was finished.
	ErrClaimLost = errors.New("consume: claim was lost")
	// ErrUnrecorded: the handler succeeded, and its DONE is not known to be recorded. The next delivery either
	// finds DONE, or runs the handler again: count these, they bound the duplicates.
	ErrUnrecorded = errors.New("consume: handler succeeded, completion not known to be recorded")
	// ErrBuried: this delivery made the message a dead letter, which somebody should hear of. Later deliveries of it
	// answer ResultBuried without an error.
	ErrBuried = errors.New("consume: message was buried")
)

// InFlightError is the [ErrInFlight] of a message that another delivery holds.
type InFlightError struct {
	// Record is the message's record as Begin answered it. Its LeaseUntil, where the store tells it, is when a
	// redelivery can succeed.
	Record model.Record
}

// Error says what is known of the claim that holds the message, as far as the store tells.
func (e *InFlightError) Error() string {
	var known []string
	if e.Record.Attempts > 0 {
		known = append(known, fmt.Sprintf("attempt %d", e.Record.Attempts))
	}
	if !e.Record.LeaseUntil.IsZero() {
		known = append(known, fmt.Sprintf("lease until %v", e.Record.LeaseUntil))
	}
	if known == nil {
		return ErrInFlight.Error()
	}
	return fmt.Sprintf("%v (%s)", ErrInFlight, strings.Join(known, ", "))
}

// Unwrap makes the error an ErrInFlight.
func (e *InFlightError) Unwrap() error { return ErrInFlight }

// unapplied is the handler's word that nothing happened.
type unapplied struct{ error }

func (u unapplied) Unwrap() error { return u.error }

// Unapplied marks a handler's error with its word that this run has had no effect, which is what a fast retry needs
// ([Options].RetryIn): a claim released after its effect invites the next one to repeat it. The mark counts only on
// the error that the handler itself returns; one that came up from a call inside it speaks of that call alone.
// Unapplied(nil) is nil.
func Unapplied(err error) error {
	if err == nil {
		return nil
	}
	return unapplied{err}
}

// lost says whether an error proves that the claim is not current: it was taken over, or its record is gone.
func lost(err error) bool {
	return errors.Is(err, model.ErrFenced) || errors.Is(err, model.ErrNotFound)
}

// claimError names the step in which the store answered, and the loss if that is what it answered.
func claimError(step string, err error) error {
	if lost(err) {
		return fmt.Errorf("consume: %s: %w: %w", step, ErrClaimLost, err)
	}
	return fmt.Errorf("consume: %s: %w", step, err)
}

package model

import "errors"

// Errors with a proof: a call that ends in one of these changed nothing. Any other error leaves its outcome
// unknown, since a reply can be lost after the work was done.
var (
	// ErrFenced refuses a claim that is no longer current.
	ErrFenced = errors.New("model: claim is no longer current")
	// ErrNotFound refuses a call on a key without a record.
	ErrNotFound = errors.New("model: no such record")
	// ErrRefused refuses input that a store cannot hold or act on: an empty id, a lease ≤ 0, a zero now.
	ErrRefused = errors.New("model: input refused, nothing changed")
)

// Outcome of a call as its caller may know it. The zero Outcome is Unknown: without a proof nothing is known.
type Outcome int

// The outcomes.
const (
	Unknown    Outcome = iota // it took effect between its call and its closing, or never
	OK                        // it took effect
	NotApplied                // it did not take effect and never will
)

// String is the word that histories use.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case NotApplied:
		return "not-applied"
	default:
		return "unknown"
	}
}

type notApplied struct{ error }

func (e notApplied) Unwrap() error { return e.error }

// NoEffect wraps an error of which the caller can prove that the call changed nothing, such as a refused
// connection. [OutcomeOf] answers NotApplied for it.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return notApplied{err}
}

// OutcomeOf classifies an error as far as it proves anything: nil is OK; NoEffect and the sentinels of this
// package are NotApplied; everything else is Unknown.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	var proof notApplied
	if errors.As(err, &proof) || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrRefused) {
		return NotApplied
	}
	return Unknown
}

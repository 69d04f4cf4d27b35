// Package adapters plugs a message-dedup store into the kit. A store whose Begin already answers a [model.Record]
// needs nothing from here; one with its own record type is one line away, with [From].
//
// The stores that the kit ships, and the drivers they bring, live in the leaf packages; this package imports the
// model and the standard library alone.
package adapters

import (
	"context"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Own is [model.Store] over a store's own record type R: the same three calls, with the same meaning, and the same
// demand that a call is never repeated underneath. It must be safe for concurrent use.
type Own[R any] interface {
	// Begin claims a message and answers the record with whether the caller holds it now.
	Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (R, bool, error)
	// Complete makes a claimed message DONE; a message without a record is an error.
	Complete(ctx context.Context, consumer, messageID string, now time.Time) error
	// Prune removes the DONE records updated before the given instant and answers how many.
	Prune(ctx context.Context, before time.Time) (int, error)
}

type own[R any] struct {
	Own[R]
	record func(R) model.Record
}

func (o own[R]) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	r, claimed, err := o.Own.Begin(ctx, consumer, messageID, now, lease)
	return o.record(r), claimed, err
}

// From plugs in a store that has its own record type. record translates an answer of Begin; it is called from every
// goroutine that calls Begin, also with the zero R where Begin failed, and should leave a field that the store does
// not keep at zero (and say so in the [model.Contract]).
//
// The result offers the three methods and hides every other one that s has, Close among them. Optional interfaces
// are added beside it, embedded as interfaces, since embedding s itself would make Begin ambiguous:
//
//	struct {
//		model.Store
//		model.Fencer
//		io.Closer
//	}{adapters.From(s, record), s, s}
func From[R any](s Own[R], record func(R) model.Record) model.Store { return own[R]{s, record} }

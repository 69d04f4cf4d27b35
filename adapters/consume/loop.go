package consume

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The values that zero fields of Options stand for.
const (
	DefaultLease  = 30 * time.Second
	DefaultFinish = 10 * time.Second
	// DefaultHold is how many leases a heartbeat holds one claim at most.
	DefaultHold = 20
)

// Options of a Loop. The zero value is ready to use: a lease of 30 s, the machine's clock, everything optional off.
// An option that the store has no capability for is an error of New.
type Options struct {
	// Lease is how long a claim holds without a heartbeat, and so how long a crash delays its message. Zero or less:
	// DefaultLease. It must be longer than the handler takes, unless a heartbeat prolongs it.
	Lease time.Duration
	// Now is the clock whose readings the store is given; nil: time.Now. It is read once for each call to the store.
	// Waiting (heartbeat, FinishWithin) is always done by the machine's monotonic clock.
	Now func() time.Time
	// FinishWithin bounds each call that ends a claim, which goes on although the caller's context has ended. Zero or
	// less: DefaultFinish.
	FinishWithin time.Duration

	// Heartbeat is the interval at which the claim is prolonged while its handler runs; zero: never. At most half the
	// lease, so that one failed attempt leaves time for another; a third is usual. Needs an Extender.
	//
	// The handler's context is cancelled, with [ErrClaimLost] as its cause, once the claim is lost or a whole lease
	// has passed since the last call that is known to have prolonged it. It beats on while the handler winds up after
	// the end of the caller's context, and is over before Deliver goes on: no claim is prolonged after its handler.
	// Each attempt has the interval as its time-out; Deliver waits for a store that ignores it.
	Heartbeat time.Duration
	// HoldAtMost bounds how long a heartbeat holds one claim, so that a handler that hangs does not keep its message
	// for ever: after it nothing is extended, and the last lease runs out. Zero: DefaultHold leases. At least one.
	HoldAtMost time.Duration

	// RetryIn turns on the fast retry: a claim whose handler fails with an [Unapplied] error is released, with the
	// error as its reason, to be claimable again after the answered time (zero or less: at once). attempts is the
	// claim's. nil, and for every other error: the lease runs out by itself. Needs a Releaser.
	RetryIn func(attempts int) time.Duration
	// BuryAfter makes a message a dead letter when its handler fails at this attempt or later, or when it is claimed
	// once more after that many (a poison message may kill its worker before it fails). Zero: never. Needs a
	// DeadLetterer, and a store that counts attempts.
	BuryAfter int
	_         struct{}
}

// Capabilities says which optional interfaces a store was found to have.
type Capabilities struct {
	Rebeginner, Fencer, EffectCommitter, ResultKeeper, Extender, Releaser, DeadLetterer bool
}

// String lists the names of those found, or says that there are none.
func (c Capabilities) String() string {
	var names []string
	for _, one := range []struct {
		has  bool
		name string
	}{
		{c.Rebeginner, "Rebeginner"}, {c.Fencer, "Fencer"}, {c.EffectCommitter, "EffectCommitter"},
		{c.ResultKeeper, "ResultKeeper"}, {c.Extender, "Extender"}, {c.Releaser, "Releaser"},
		{c.DeadLetterer, "DeadLetterer"},
	} {
		if one.has {
			names = append(names, one.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Loop delivers the messages of one consumer. It keeps no state of its own, so one Loop serves any number of
// goroutines, and any number of Loops, in any number of processes, serve one consumer.
type Loop struct {
	store    model.Store
	consumer string
	options  Options
	again    *unclear // not nil: a delivery that asks again

	// nil where the store has no such capability.
	rebeginner model.Rebeginner
	fencer     model.Fencer
	committer  model.EffectCommitter
	keeper     model.ResultKeeper
	extender   model.Extender
	releaser   model.Releaser
	burier     model.DeadLetterer
}

// New makes the loop of one consumer over a store, whose optional interfaces are looked for now and never again. The
// consumer's name is a part of every key: it has to stay the same over restarts and releases. The error says which
// argument is wrong; for an option that lacks its capability it is an [errors.ErrUnsupported].
func New(store model.Store, consumer string, options Options) (*Loop, error) {
	switch {
	case store == nil:
		return nil, errors.New("consume: new: no store")
	case consumer == "":
		return nil, fmt.Errorf("consume: new: the consumer is empty: %w", model.ErrRefused)
	}
	l := &Loop{store: store, consumer: consumer, options: options}
	l.rebeginner, _ = store.(model.Rebeginner)
	l.fencer, _ = store.(model.Fencer)
	l.committer, _ = store.(model.EffectCommitter)
	l.keeper, _ = store.(model.ResultKeeper)
	l.extender, _ = store.(model.Extender)
	l.releaser, _ = store.(model.Releaser)
	l.burier, _ = store.(model.DeadLetterer)
	if err := l.settle(); err != nil {
		return nil, fmt.Errorf("consume: new: %w", err)
	}
	return l, nil
}

// settle puts the defaults in and holds the options against the capabilities and each other.
func (l *Loop) settle() error {
	o := &l.options
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.FinishWithin <= 0 {
		o.FinishWithin = DefaultFinish
	}
	switch {
	case o.RetryIn != nil && l.releaser == nil:
		return fmt.Errorf("RetryIn: the store is no Releaser: %w", errors.ErrUnsupported)
	case o.BuryAfter < 0:
		return fmt.Errorf("BuryAfter %d is negative", o.BuryAfter)
	case o.BuryAfter > 0 && l.burier == nil:
		return fmt.Errorf("BuryAfter: the store is no DeadLetterer: %w", errors.ErrUnsupported)
	case o.Heartbeat < 0:
		return fmt.Errorf("Heartbeat %v is negative", o.Heartbeat)
	case o.Heartbeat == 0:
		if o.HoldAtMost != 0 {
			return fmt.Errorf("HoldAtMost %v without a Heartbeat", o.HoldAtMost)
		}
		return nil
	case l.extender == nil:
		return fmt.Errorf("Heartbeat: the store is no Extender: %w", errors.ErrUnsupported)
	case o.Heartbeat > o.Lease/2:
		return fmt.Errorf("Heartbeat %v is more than half the lease %v", o.Heartbeat, o.Lease)
	}
	if o.HoldAtMost == 0 {
		o.HoldAtMost = DefaultHold * o.Lease
	}
	if o.HoldAtMost < o.Lease {
		return fmt.Errorf("HoldAtMost %v is shorter than the lease %v", o.HoldAtMost, o.Lease)
	}
	return nil
}

// Capabilities says what New found.
func (l *Loop) Capabilities() Capabilities {
	return Capabilities{
		Rebeginner:      l.rebeginner != nil,
		Fencer:          l.fencer != nil,
		EffectCommitter: l.committer != nil,
		ResultKeeper:    l.keeper != nil,
		Extender:        l.extender != nil,
		Releaser:        l.releaser != nil,
		DeadLetterer:    l.burier != nil,
	}
}

func (l *Loop) now() time.Time {
	if l.options.Now == nil {
		return time.Now()
	}
	return l.options.Now()
}

package model

import (
	"fmt"
	"time"
)

// Clock says whose clock decides about leases and the window.
type Clock int

// The clocks.
const (
	CallerClock Clock = iota // now is an input; the model is exact
	ServerClock              // the server's clock decides; now is ignored
)

// Retention says how a store forgets.
type Retention int

// The retentions.
const (
	UntilPruned Retention = iota
	ByItself              // the server forgets DONE (and perhaps an expired claim) after Window
)

// Contract states facts about a store. Its zero value is the strict one. Facts are printed; what a store
// promises and does not keep is a [Waiver].
type Contract struct {
	Clock Clock
	// ClockError is how far the deciding clock may run from the kit's over one lease. Zero: 50ms for
	// ServerClock, none for CallerClock; negative: none.
	ClockError time.Duration
	// Precision of the instants that the store keeps. Zero: 1ns. Two instants closer than this may compare
	// either way.
	Precision time.Duration
	// MinLease is the shortest lease that the store can keep. Zero: Precision.
	MinLease time.Duration
	// Window is how long DONE is remembered, counted from completion. Zero: 7 days.
	Window time.Duration
	// Redelivery is the longest distance between two deliveries of one message that the broker may produce.
	// Zero: 1 day. It must be shorter than Window, or the effect happens again.
	Redelivery time.Duration
	Retention  Retention

	NoLease         bool // inbox: a claim is final
	LeaseIsRecord   bool // the lease is a TTL: an expired claim leaves no record, attempts start again
	RefusesLate     bool // an owner past its lease is refused even if nobody took over
	NoAttempts      bool // Record.Attempts is not kept
	NoTimes         bool // Record.LeaseUntil and UpdatedAt are not reported
	MaxAttempts     int  // zero: no bound; above it an expired claim becomes Dead
	TokenPerRecord  bool // attempts-only: tokens start again after Prune
	OrderedToken    bool // Token is a base-10 uint64 that increases per key
	PruneAtMost     int  // zero: one call removes all that is old
	LosesOnCrash    bool // a crash of the server may take back what it had acknowledged
	SharedNamespace bool // Prune sees other namespaces, so its count says nothing about one of them

	// AcceptsKey says which keys the store refuses; nil: none.
	AcceptsKey func(consumer, messageID string) error
	Waivers    []Waiver
	_          struct{}
}

// Waiver names the narrowest promise that a store does not keep, why, and until when that is accepted.
type Waiver struct {
	Invariant InvariantID
	Reason    string
	Until     time.Time // zero: no expiry
}

// The values that zero fields of a Contract stand for.
const (
	DefaultWindow     = 7 * 24 * time.Hour
	DefaultRedelivery = 24 * time.Hour
	DefaultClockError = 50 * time.Millisecond
	DefaultPrecision  = time.Nanosecond
)

// WithDefaults returns the contract with every zero field replaced by the value it stands for.
func (c Contract) WithDefaults() Contract {
	if c.Precision == 0 {
		c.Precision = DefaultPrecision
	}
	if c.MinLease == 0 {
		c.MinLease = c.Precision
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Redelivery == 0 {
		c.Redelivery = DefaultRedelivery
	}
	switch {
	case c.ClockError < 0:
		c.ClockError = 0
	case c.ClockError == 0 && c.Clock == ServerClock:
		c.ClockError = DefaultClockError
	}
	return c
}

// Validate says what is wrong with a contract, naming the field; nil if it can be judged by.
func (c Contract) Validate() error {
	c = c.WithDefaults()
	switch {
	case c.Clock != CallerClock && c.Clock != ServerClock:
		return fmt.Errorf("model: contract: Clock %d is neither CallerClock nor ServerClock", c.Clock)
	case c.Retention != UntilPruned && c.Retention != ByItself:
		return fmt.Errorf("model: contract: Retention %d is neither UntilPruned nor ByItself", c.Retention)
	case c.Precision < 0:
		return fmt.Errorf("model: contract: Precision %v is negative", c.Precision)
	case c.MinLease < 0:
		return fmt.Errorf("model: contract: MinLease %v is negative", c.MinLease)
	case c.Window < 0:
		return fmt.Errorf("model: contract: Window %v is negative", c.Window)
	case c.Redelivery < 0:
		return fmt.Errorf("model: contract: Redelivery %v is negative", c.Redelivery)
	case c.Window <= c.Redelivery:
		return fmt.Errorf("model: contract: Window %v is not longer than Redelivery %v: a redelivery after the window repeats the effect", c.Window, c.Redelivery)
	case c.MaxAttempts < 0:
		return fmt.Errorf("model: contract: MaxAttempts %d is negative", c.MaxAttempts)
	case c.PruneAtMost < 0:
		return fmt.Errorf("model: contract: PruneAtMost %d is negative", c.PruneAtMost)
	}
	for i, w := range c.Waivers {
		if !w.Invariant.known() {
			return fmt.Errorf("model: contract: Waivers[%d] names %q, which is no invariant", i, w.Invariant)
		}
		if w.Reason == "" {
			return fmt.Errorf("model: contract: Waivers[%d] (%s) gives no reason", i, w.Invariant)
		}
	}
	return nil
}

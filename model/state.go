package model

import (
	"fmt"
	"strconv"
	"time"
)

// KeyState is what the contract lets one record be, between two operations. It is comparable: two equal states
// have the same future.
type KeyState struct {
	State    State
	Attempts int
	// lease is when the claim may be taken over, claimed when it was made, updated when the record became DONE.
	lease, claimed, updated span
	// Claim is the operation that claimed the record; in DONE and DEAD, the claim that ended it. 0: none that a
	// caller can present.
	Claim int
	// Handle is the opened value whose Begin got the claim, if it learned so.
	Handle int
	Nonce  string
	// Token is the last token that was told for this key, also after it was forgotten; current if tokenKnown.
	Token      string
	tokenKnown bool
	// Released: the owner gave the claim back, so what it does now may go either way.
	Released bool
	// Born is the operation that made the record, so that a claim from before a forgetting can be told.
	Born      int
	Result    string
	HasResult bool
}

// forgotten is the state after the record is gone. The last token stays, since tokens identify claims for all time.
func (s KeyState) forgotten() KeyState { return KeyState{Token: s.Token} }

// Describe says in words what the record was, with instants as offsets from the history's epoch.
func (s KeyState) Describe(h *History) string {
	when := func(sp span) string {
		if sp.from == sp.to {
			return h.Offset(sp.from).String()
		}
		return fmt.Sprintf("%v…%v", h.Offset(sp.from), h.Offset(sp.to))
	}
	switch s.State {
	case Absent:
		return "absent"
	case Processing:
		by := "an operation that nobody got the answer of"
		if s.Claim > 0 {
			by = fmt.Sprintf("#%d", s.Claim)
		}
		text := fmt.Sprintf("PROCESSING, claimed by %s, attempts %d, lease until %s", by, s.Attempts, when(s.lease))
		if s.Released {
			text += ", released"
		}
		return text
	case Done:
		text := "DONE at " + when(s.updated)
		if s.Claim > 0 {
			text += fmt.Sprintf(" by the claim of #%d", s.Claim)
		}
		return text
	default:
		return string(s.State)
	}
}

// Rules are a contract made ready to judge by.
type Rules struct {
	Contract
	excused uint32
}

// NewRules fills in the defaults of a contract. Waived promises are not judged.
func NewRules(c Contract) *Rules {
	r := &Rules{Contract: c.WithDefaults()}
	for _, w := range c.Waivers {
		r.excused |= w.Invariant.bit()
	}
	return r
}

// Excusing returns rules under which exactly this promise, too, may be broken. It is how a reason is found: if a
// history that nothing explains is explained once the store may break one promise, that promise is the reason.
func (r *Rules) Excusing(id InvariantID) *Rules {
	wider := *r
	wider.excused |= id.bit()
	return &wider
}

func (r *Rules) excuses(id InvariantID) bool { return r.excused != 0 && r.excused&id.bit() != 0 }

func (id InvariantID) bit() uint32 {
	for i := range invariants {
		if invariants[i].ID == id {
			return 1 << i
		}
	}
	panic(fmt.Sprintf("model: %q is no invariant", id))
}

// reached says whether now has come to end. Instants on multiples of the precision compare exactly, so that the
// boundary stays sharp; others that lie closer than the precision compare either way.
func (r *Rules) reached(now, end span) answer {
	slack := Instant(1)
	p := Instant(r.Precision)
	aligned := p <= 1 || now.from%p == 0 && end.from%p == 0 && now.to%p == 0 && end.to%p == 0
	if !aligned {
		slack = p
	}
	switch {
	case aligned && now.from >= end.to, !aligned && now.from.Sub(end.to) >= r.Precision:
		return yes
	case end.from.Sub(now.to) >= time.Duration(slack):
		return no
	}
	return either
}

// near says whether an instant that a store told is the expected one: the same for an exact store, else within
// one unit of its precision.
func (r *Rules) near(told Instant, want span) bool {
	slack := r.Precision
	if slack == DefaultPrecision {
		slack = 0
	}
	want = want.widen(slack)
	return told >= want.from && told <= want.to
}

// now is when an operation took effect, in the clock that the contract says decides.
func (r *Rules) now(e *Event) span {
	if r.Clock == CallerClock {
		return at(e.Now)
	}
	end := e.ReturnedAt
	if end == NoInstant || !e.Known() {
		end = lastInstant // it may still be on its way
	}
	return span{e.CalledAt, end}
}

// leaseEnd is when a lease that begins now ends.
func (r *Rules) leaseEnd(e *Event, now span) span {
	if e.Lease <= 0 || e.Lease < r.MinLease {
		return span{firstInstant, lastInstant} // a store that takes such a lease at all may make of it what it likes
	}
	return now.add(e.Lease).widen(r.ClockError)
}

// newToken says whether a token is fit to name a new claim of a key whose last one is known.
func (r *Rules) newToken(token, last string) bool {
	if token == "" {
		return !r.OrderedToken
	}
	if !r.OrderedToken {
		return token != last || r.TokenPerRecord
	}
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return false
	}
	m, err := strconv.ParseUint(last, 10, 64)
	return err != nil || n > m
}

package model

import (
	"fmt"
	"strconv"
)

// KeyState is what the contract lets one record be, between two operations. It is comparable: two equal states
// have the same future.
type KeyState struct {
	State    State
	Attempts int
	// lease is when the claim may be taken over, claimed when it was made, updated when the record was made or
	// became DONE; the zero span where the store may choose.
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
	forgot   bool   // absent, after it was not
	reason   string // why it was released or buried; empty: the store may choose
	// Born is the operation that made the record, so that a claim from before a forgetting can be told.
	Born      int
	bornEnd   int64 // when that operation had ended: a claim that was called before may belong to an earlier record
	Result    string
	HasResult bool

	consumed bool // a whole consumer's: nobody looks inside
	effects  int  // of a consumer's message, as far as they were found; 2: two or more
	happened bool // it had its effect before it was forgotten, and a business key may remember that
}

// born marks a record as made by this operation.
func (s KeyState) born(e *Event) KeyState {
	s.Born, s.bornEnd = e.ID, e.end()
	return s
}

// forgotten is the state after the record is gone. The last token stays, since tokens identify claims for all time.
func (s KeyState) forgotten() KeyState {
	return KeyState{Token: s.Token, forgot: true, happened: s.happened || s.effects > 0}
}

// Describe says in words what the record was, with instants as offsets from the history's epoch.
func (s KeyState) Describe(h *History) string {
	when := func(sp span) string {
		switch {
		case sp == anytime:
			return "any time"
		case sp.from == firstInstant:
			return fmt.Sprintf("%v or earlier", h.Offset(sp.to))
		case sp.to == lastInstant:
			return fmt.Sprintf("%v or later", h.Offset(sp.from))
		case sp.from == sp.to:
			return h.Offset(sp.from).String()
		}
		return fmt.Sprintf("%v…%v", h.Offset(sp.from), h.Offset(sp.to))
	}
	switch s.State {
	case Absent:
		return "absent"
	case Processing:
		if s.consumed {
			return s.describeConsumed("")
		}
		if s.Claim == 0 {
			return fmt.Sprintf("PROCESSING, replayed, attempts %d, claimable at once", s.Attempts)
		}
		text := fmt.Sprintf("PROCESSING, claimed by #%d, attempts %d, lease until %s", s.Claim, s.Attempts, when(s.lease))
		if s.Released {
			text += ", released"
		}
		return text
	case Done:
		text := "DONE at " + when(s.updated)
		if s.Claim > 0 {
			text += fmt.Sprintf(" by the claim of #%d", s.Claim)
		}
		if s.consumed {
			return s.describeConsumed(text)
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

// Excuses reports whether a promise is waived, or excused for a trial.
func (r *Rules) Excuses(id InvariantID) bool { return r.excuses(id) }

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
	switch {
	case now.from >= end.to && r.apart(now.from, end.to):
		return yes
	case end.from > now.to && r.apart(end.from, now.to):
		return no
	}
	return either
}

// apart says whether the order of two instants, the later one first, survives the store's rounding. Rounding keeps
// order, and leaves what is aligned alone.
func (r *Rules) apart(later, earlier Instant) bool {
	p := Instant(r.Precision)
	return p <= 1 || later%p == 0 && earlier%p == 0 || later.Sub(earlier) >= r.Precision
}

// near says whether an instant that a store told is the expected one: the same for an exact store, else within
// one unit of its precision. A server's clock may be as far from the kit's as the contract says.
func (r *Rules) near(told Instant, want span) bool {
	slack := r.Precision
	if slack == DefaultPrecision {
		slack = 0
	}
	want = want.widen(slack).widen(r.ClockError)
	return told >= want.from && told <= want.to
}

// nearLease is near for the end of a lease, of which there is none where a claim is final.
func (r *Rules) nearLease(told Instant, want span) bool { return r.NoLease || r.near(told, want) }

// now is when an operation took effect, in the clock that the contract says decides.
func (r *Rules) now(e *Event) span {
	if r.Clock == CallerClock {
		if e.Now == NoInstant { // the call has none, or a zero one, of which a store may make what it likes
			return anytime
		}
		return at(e.Now)
	}
	end := e.ReturnedAt
	if end == NoInstant || !e.Known() && (e.Closed == 0 || e.Closed > e.Return) {
		end = lastInstant // it may still be on its way
	}
	return span{e.CalledAt, end}
}

// bounded narrows what a call of unknown end did, by the first operation after it whose end is known: what came
// before took effect before. Otherwise a lost claim under a server's clock could be stuck for ever, unnoticed.
func (r *Rules) bounded(s KeyState, now span) KeyState {
	if r.Clock == CallerClock || now.to == lastInstant {
		return s
	}
	if s.claimed.to == lastInstant {
		if s.lease.to == lastInstant && s.lease.from != firstInstant {
			s.lease.to = now.to.Add(s.lease.from.Sub(s.claimed.from)).Add(2 * r.ClockError)
		}
		s.claimed.to = max(now.to, s.claimed.from)
	}
	if s.updated.to == lastInstant {
		s.updated.to = max(now.to, s.updated.from)
	}
	return s
}

// leaseEnd is when a lease that begins now ends.
func (r *Rules) leaseEnd(e *Event, now span) span {
	if e.Lease <= 0 || e.Lease < r.MinLease || now == anytime {
		return anytime // a store that takes such a lease at all may make of it what it likes
	}
	return now.add(e.Lease).widen(r.ClockError)
}

// released is when a claim that is given back may be taken: from visibleAt on, or at once if that is past.
func (r *Rules) released(e *Event, now span) span {
	visible := at(e.VisibleAt).widen(r.ClockError)
	if r.reached(now, visible) == no {
		return visible
	}
	return span{firstInstant, max(visible.to, now.to)}
}

// newToken says whether a token is fit to name a new claim of a key whose last one is known; fresh: of a record
// that was made for it.
func (r *Rules) newToken(token, last string, fresh bool) bool {
	if fresh && r.TokenPerRecord {
		last = ""
	}
	switch {
	case token == "":
		return !r.OrderedToken
	case !r.OrderedToken:
		return token != last
	}
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return false
	}
	m, err := strconv.ParseUint(last, 10, 64)
	return err != nil || n > m
}

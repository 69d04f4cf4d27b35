package model

import "fmt"

// deliver is one delivery to a whole consumer. Nobody looks into it: what counts is what it told, and which effects
// were found outside. A delivery that did not finish leaves the message open, for the consumer's own lease, until the
// latest redelivery that the broker may make: refused then, too, the message would be lost.
func (m *moves) deliver(s KeyState) {
	rows := max(m.e.Rows, 0)
	if rows > 0 && s.effects+rows > 1 && !m.excuses(AtMostOneEffect) {
		return
	}
	s.effects = min(s.effects+rows, 2)
	if s.State == Absent {
		s = s.born(m.e)
	}
	s.consumed = true
	switch a := &m.e.Answer; {
	case a.Outcome != OK:
		m.deliverFailed(s)
	case a.Told == ResultApplied:
		m.deliverFinished(s, s.State != Dead)
	case a.Told == ResultDuplicate:
		m.deliverFinished(s, s.State != Absent || m.e.Rows >= 0)
	case a.Told == ResultBuried:
		if s.State == Dead || s.State == Processing || m.troubled() || m.excuses(TypedAnswers) {
			m.to = append(m.to, m.ended(s, Dead))
		}
	default: // in flight
		if m.inFlight(s) {
			m.to = append(m.to, s.open(m.when))
		}
	}
}

// deliverFinished: the message is done with, and the effect is there. A consumer whose effect is idempotent by itself
// may tell "applied" again, and write nothing again even after the window: no more is asked of anybody out there.
func (m *moves) deliverFinished(s KeyState, fits bool) {
	had := m.e.Rows < 0 || s.effects > 0 || s.happened || m.excuses(NoLostEffect)
	if !had || !fits && !m.excuses(TypedAnswers) {
		return
	}
	m.to = append(m.to, m.ended(s, Done))
	if s.State == Done { // its window may count from here, or from the first time
		m.to = append(m.to, s)
	}
}

// deliverFailed: an error says nothing of what was done, unless a proof comes with it. Without a fault it is only right
// where the message may be in flight, or is given up by this very delivery.
func (m *moves) deliverFailed(s KeyState) {
	if !m.disturbed() && !m.inFlight(s) {
		if s.State == Processing {
			m.to = append(m.to, m.ended(s, Dead))
		}
		return
	}
	if m.e.Rows <= 0 {
		m.to = append(m.to, s.asBefore())
	}
	switch s.State {
	case Done, Dead:
		m.to = append(m.to, s)
		return
	}
	m.to = append(m.to, s.open(m.when), m.ended(s, Dead))
	if s.effects > 0 || m.e.Rows < 0 {
		m.to = append(m.to, m.ended(s, Done))
	}
}

// inFlight says whether "somebody else is at it" may be true.
func (m *moves) inFlight(s KeyState) bool {
	if m.troubled() || m.excuses(TypedAnswers) {
		return true
	}
	if s.State != Processing {
		return false
	}
	last := at(s.claimed.to).add(m.Redelivery)
	return m.reached(m.when, last) != yes || m.excuses(TakeoverAfterExpiry)
}

// troubled: another delivery of the message ran beside this one, or a fault touched it.
func (m *moves) troubled() bool { return m.e.Contended || m.e.Fault != 0 }

// open is a message of which a delivery was tried and not finished; claimed spans all those tries.
func (s KeyState) open(when span) KeyState {
	switch {
	case s.State == Processing:
		s.claimed = s.claimed.hull(when)
	case s.State == Absent:
		s.State, s.claimed, s.forgot = Processing, when, false
	}
	return s
}

// ended is a message that is finished, now or by an earlier try that could not say so. An effect names the try that had
// it, and before its effect no message is finished.
func (m *moves) ended(s KeyState, state State) KeyState {
	when := m.when
	if s.State == Processing && m.e.Rows <= 0 {
		when = s.claimed.hull(when)
	}
	s.State, s.updated, s.claimed, s.forgot = state, when, span{}, false
	return s
}

// asBefore undoes what a delivery that did nothing would have changed.
func (s KeyState) asBefore() KeyState {
	if s.State == Absent {
		return KeyState{Token: s.Token, forgot: s.forgot, happened: s.happened}
	}
	return s
}

// windowOver: some worker's clock has come so far that the consumer may have forgotten the message.
func (r *Rules) windowOver(s KeyState, e *Event) bool {
	return e.Latest.Sub(s.updated.from) > r.Window-r.Precision
}

func (s KeyState) describeConsumed(text string) string {
	if s.State == Processing {
		text = "delivered and not known to be finished"
	}
	return fmt.Sprintf("%s, effects so far: %d", text, s.effects)
}

package model

import "slices"

// Step returns every state that the record may be in after an operation that took effect in state s and was
// answered as the event says. None: the contract forbids the answer. An operation of unknown outcome may also
// have done nothing, unless it is known to have been applied. Step is pure.
//
// A Prune is judged per key: what was old and DONE is gone, everything else stays.
func Step(c Contract, s KeyState, e Event) []KeyState {
	return NewRules(c).Step(nil, s, &e)
}

// Step is [Step] for many calls: it appends to dst.
func (r *Rules) Step(dst []KeyState, s KeyState, e *Event) []KeyState {
	m := moves{Rules: r, e: e, to: dst, when: r.now(e)}
	s = r.bounded(s, m.when)
	m.stepAfter(s, r.elapsed(s, e, m.when))
	return m.to
}

// StepOptional is Step for the second and further times that one Prune may meet a record: it may remove what is
// old, but owes nothing.
func (r *Rules) StepOptional(dst []KeyState, s KeyState, e *Event) []KeyState {
	dst = append(dst, s)
	if s.State == Done && r.old(s, e) != no {
		dst = append(dst, s.forgotten())
	}
	return dst
}

// elapsed says whether time alone has made a record vanish: for a store whose server forgets by itself, or one
// that is excused for forgetting.
func (r *Rules) elapsed(s KeyState, e *Event, now span) answer {
	switch {
	case s.State == Processing && r.LeaseIsRecord && !s.consumed: // nobody knows a whole consumer's lease
		over := r.reached(now, s.lease)
		switch {
		case over == yes && (s.Released || s.Claim == 0):
			return either // claimable at once, which needs the record, if its attempts or reason are kept
		case over == yes && r.excuses(TakeoverAfterExpiry), over == no && r.excuses(NoEarlySteal):
			return either // a lease too long or too short is a record kept too long, or not long enough
		}
		return over
	case s.State != Done:
		return no
	case r.excuses(DoneStaysDone), r.excuses(RememberedInWindow) && (now.from > s.updated.to || e.Before > s.updated.to):
		return either
	case s.consumed && r.windowOver(s, e):
		return either
	case r.Retention == ByItself:
		return r.reached(now, s.updated.add(r.Window).widen(r.ClockError))
	}
	return no
}

// stepAfter steps from the record, from its absence, or from both.
func (m *moves) stepAfter(s KeyState, gone answer) {
	if gone != yes {
		m.step(s)
	}
	if gone != no {
		first := len(m.to)
		m.step(s.forgotten())
		// A call that found the record gone by its own clock, or never came to the store, need not have removed it:
		// the next caller's clock may run behind.
		byTime := m.Clock == CallerClock && (m.Retention == ByItself || m.LeaseIsRecord)
		if byTime && slices.ContainsFunc(m.to[first:], func(s KeyState) bool { return s.State == Absent }) {
			m.to = append(m.to, s)
		}
	}
	noticed := !m.e.Kind.Claims() && m.when != anytime && m.reached(m.when, s.lease) != no
	if gone != yes && noticed && m.spent(s) {
		m.step(s.dead()) // nobody says that it takes a Begin to notice
	}
}

// moves collects the states that one operation may lead to.
type moves struct {
	*Rules
	e    *Event
	to   []KeyState
	when span

	shifted bool // the claim is an early takeover, which is excused
}

// disturbed: no answer of the store's came through, and the kit knows why or does not ask. Anything may have
// happened.
func (m *moves) disturbed() bool {
	return m.e.Answer.Outcome == Unknown && (m.e.Fault != 0 || m.e.Return == 0 || m.excuses(TypedAnswers))
}

// failed: the store itself answered with an error.
func (m *moves) failed() bool { return m.e.Answer.Outcome != OK && !m.disturbed() }

// move adds a state that the operation may lead to if it was answered so.
func (m *moves) move(answered bool, s KeyState) {
	if answered || m.disturbed() {
		m.to = append(m.to, s)
	}
}

// commit adds a state that is reached by writing the call's effect, stay one that is reached without.
func (m *moves) commit(answered bool, s KeyState) {
	if !m.wrote(1) {
		return
	}
	m.move(answered, s)
}

func (m *moves) stay(answered bool, s KeyState) {
	if !m.wrote(0) {
		return
	}
	m.move(answered, s)
}

// wrote says whether the effects found for this call are as many as it may have written.
func (m *moves) wrote(n int) bool {
	switch rows := m.e.Rows; {
	case rows < 0 || m.e.Effect.ID == "" || rows == n:
		return true
	case rows > n:
		return m.excuses(AtMostOneEffect)
	default:
		return m.excuses(NoLostEffect)
	}
}

func (m *moves) step(s KeyState) {
	if m.refusedInput(s) || m.untouched(s) {
		return
	}
	switch m.e.Kind {
	case Begin, BeginAs:
		m.begin(s)
	case Complete:
		m.complete(s)
	case CompleteClaim, CommitEffect, CompleteResult:
		m.completeClaim(s)
	case Release, Extend, Bury:
		m.keepClaim(s)
	case Replay:
		m.replay(s)
	case ApplyOnce:
		m.applyOnce(s)
	case Deliver:
		m.deliver(s)
	case Prune:
		m.prune(s)
	case Lookup:
		m.lookup(s)
	default:
		panic("model: step: unknown kind " + string(m.e.Kind))
	}
	if m.disturbed() && !m.e.Applied && m.wrote(0) {
		m.to = append(m.to, s)
	}
	if m.failed() && m.e.Answer.Refusal != Fenced && m.e.Answer.Refusal != NotFound && m.excuses(TypedAnswers) {
		m.to = append(m.to, s)
	}
}

// refusedInput: a call that no store can be asked to serve may be refused, by any error, and then nothing changed.
func (m *moves) refusedInput(s KeyState) bool {
	if !m.failed() || !m.unfit() {
		return false
	}
	m.stay(true, s)
	return true
}

func (m *moves) unfit() bool {
	e, sh := m.e, shapes[m.e.Kind]
	switch {
	case sh.key && (e.Key.Consumer == "" || e.Key.ID == ""), sh.now && e.Now == NoInstant:
		return true
	case sh.lease && (e.Lease <= 0 || e.Lease < m.MinLease):
		return true
	}
	return sh.key && m.AcceptsKey != nil && m.AcceptsKey(e.Key.Consumer, e.Key.ID) != nil
}

// untouched: a fault kept the call from the store, and the error proves it. Of a whole consumer such an error may speak
// of the last of several calls alone.
func (m *moves) untouched(s KeyState) bool {
	a := &m.e.Answer
	if m.e.Kind == Deliver || a.Outcome != NotApplied || a.Refusal != Failed && a.Refusal != Refused || m.e.Fault == 0 || !m.wrote(0) {
		return false
	}
	m.to = append(m.to, s)
	return true
}

func (m *moves) prune(s KeyState) {
	answered := m.e.Answer.Outcome == OK
	old := no
	if s.State == Done {
		old = m.old(s, m.e)
	}
	owed := old == yes && m.PruneAtMost == 0 && m.Retention == UntilPruned
	if !owed || m.excuses(ForgottenAfterWindow) {
		m.move(answered, s)
	}
	if m.toldNone() {
		return
	}
	told := m.e.Answer.Count > 0 || m.SharedNamespace || m.disturbed() // a prune that removed something says so
	early := told && s.State != Absent && m.excuses(PruneOnlyOldDone) ||
		s.State == Done && m.excuses(RememberedInWindow) && m.reached(s.claimed, at(m.e.Before)) != yes
	if old != no || early {
		m.move(answered, s.forgotten())
	}
}

// toldNone: the count is exact, and says that nothing was removed.
func (m *moves) toldNone() bool {
	return m.e.Alone && m.e.Answer.Outcome == OK && m.e.Answer.Count == 0 && !m.SharedNamespace && m.Retention == UntilPruned
}

// old says whether a DONE record lies before the cut-off of a Prune.
func (r *Rules) old(s KeyState, e *Event) answer {
	return yes - r.reached(s.updated, at(e.Before).widen(r.ClockError))
}

func (m *moves) applyOnce(s KeyState) {
	answered := m.e.Answer.Outcome == OK
	switch s.State {
	case Absent:
		m.commit(answered && m.e.Answer.Yes, KeyState{State: Done, Token: s.Token, claimed: m.when, updated: m.when}.born(m.e))
		m.stay(answered && !m.e.Answer.Yes && m.excuses(TypedAnswers), s)
	default:
		m.stay(answered && (!m.e.Answer.Yes || m.excuses(AtMostOneEffect)), s)
	}
}

func (m *moves) replay(s KeyState) {
	if s.State != Dead {
		m.move(m.failed(), s)
		return
	}
	// Earlier claims being stale, the store may have changed the token; and whatever is past is "at once".
	s.State, s.lease, s.updated = Processing, span{firstInstant, m.when.to}, span{}
	s.Claim, s.Handle, s.Nonce, s.Released, s.tokenKnown, s.reason = 0, 0, "", false, false, ""
	m.move(m.e.Answer.Outcome == OK, s)
}

// lookup reads. To say "no such record" of what is absent is as true as to say "not found".
func (m *moves) lookup(s KeyState) {
	a := &m.e.Answer
	m.move(a.Outcome == OK && m.tells(s, a.Yes), m.learn(s))
	if s.State == Absent && a.Refusal == NotFound {
		m.to = append(m.to, s)
	}
}

package model

// complete is the completion by key alone. Only the owner, through the value that got the claim and within its
// lease, must succeed; everyone else may or may not, since nothing tells them apart.
func (m *moves) complete(s KeyState) {
	answered := m.e.Answer.Outcome == OK
	switch s.State {
	case Absent:
		m.move(m.failed(), s)
		if m.excuses(TypedAnswers) {
			m.move(answered, s)
		}
	case Processing:
		owner := s.Handle != 0 && s.Handle == m.e.Handle && !s.Released && !m.e.Disputed
		must := owner && (m.NoLease || m.reached(m.when, s.lease) == no)
		m.finish(s, s.done(m, 0), must)
	case Done:
		m.finish(s, s, false)
		s.updated = m.when
		m.finish(s, s, false)
	default: // DEAD: without a token nobody was promised that it stays so
		m.finish(s, s, false)
		m.finish(s, s.done(m, 0), false)
	}
}

// finish adds the outcomes of a call that may succeed (to next) or, unless it must, be refused (staying in s). An
// error without a proof leaves both open.
func (m *moves) finish(s, next KeyState, must bool) {
	unproved := m.failed() && m.e.Answer.Outcome == Unknown
	m.commit(m.e.Answer.Outcome == OK || !must && unproved, next)
	if !must || m.excuses(TypedAnswers) {
		m.stay(m.failed(), s)
	}
}

// done is the record after its completion by the given claim.
func (s KeyState) done(m *moves, claim int) KeyState {
	s.State, s.lease, s.updated, s.Claim, s.Released, s.Nonce, s.reason = Done, span{}, m.when, claim, false, "", ""
	if m.e.Kind == CompleteResult {
		s.Result, s.HasResult = m.e.Result, true
	}
	return s
}

// mine: the call presents the record's own claim, in time if the store insists on that.
func (m *moves) mine(s KeyState) bool {
	if s.Claim == 0 || s.Claim != m.e.Presented {
		return false
	}
	late := s.State == Processing && !s.Released && !m.NoLease && m.reached(m.when, s.lease) == yes
	return !late || !m.RefusesLate
}

// completeClaim is the completion by claim, with or without an effect in the same transaction.
func (m *moves) completeClaim(s KeyState) {
	mine := m.mine(s)
	switch {
	case s.State == Processing && mine:
		m.finish(s, s.done(m, s.Claim), m.live(s))
	case s.State == Done && mine:
		m.stay(m.e.Answer.Outcome == OK, s)
		if m.excuses(TypedAnswers) {
			m.stay(m.failed(), s)
		}
	case s.State == Done && s.Claim == 0: // completed by key: nobody can say by which claim
		m.stay(true, s)
	case m.TokenPerRecord:
		m.stale(s, s.done(m, s.Claim))
	default:
		m.stale(s, s.done(m, m.e.Presented))
	}
}

// keepClaim is Release, Extend and Bury: what an owner does with its claim other than completing it.
func (m *moves) keepClaim(s KeyState) {
	mine := m.mine(s)
	again := m.e.Kind == Release && s.Released
	switch {
	case s.State == Processing && mine:
		must := m.live(s) || again && m.reached(m.when, s.lease) == no
		for _, next := range m.kept(s) {
			m.finish(s, next, must)
		}
		if again { // it was given back already
			m.stay(m.e.Answer.Outcome == OK, s)
		}
	case s.State == Done && m.e.Answer.State == Processing && m.excuses(DoneStaysDone):
		m.to = append(m.to, m.reopened(s))
	case s.State == Done && (mine || s.Claim == 0):
		m.stay(m.e.Kind != Extend || m.failed() || m.tellsRecord(s), s)
	case s.State == Dead && mine && m.e.Kind == Bury: // asked again
		m.stay(true, s)
		s.reason = m.e.Reason
		m.stay(m.e.Answer.Outcome == OK, s)
	case s.State == Processing:
		m.stale(s, m.kept(s)...)
	default:
		m.stale(s)
	}
}

// reopened is a DONE record that an Extend made a claim again, with the end that it tells, as the excuse has it.
func (m *moves) reopened(s KeyState) KeyState {
	s.State, s.Claim, s.updated, s.lease = Processing, m.e.Presented, span{}, anytime
	if told := m.e.Answer.LeaseUntil; !m.NoTimes && told != NoInstant {
		s.lease = at(told)
	}
	return s
}

// kept lists what a call may make of the record of the claim that it presents. The store chooses UpdatedAt.
func (m *moves) kept(s KeyState) []KeyState {
	s.updated, s.reason = span{}, m.e.Reason
	switch m.e.Kind {
	case Release: // what the owner does from now on may go either way, so the store may have changed the token
		s.lease, s.Released, s.tokenKnown = m.released(m.e, m.when), true, false
		return []KeyState{s}
	case Bury:
		s.State = Dead
		return []KeyState{s}
	}
	later := s
	s.lease = m.leaseEnd(m.e, m.when)
	if later.lease.to > s.lease.to {
		return m.extended(s, later)
	}
	return m.extended(s)
}

// extended keeps the ends that the answer, if there is one, tells.
func (m *moves) extended(ends ...KeyState) []KeyState {
	if m.e.Answer.Outcome != OK {
		return ends
	}
	var told []KeyState
	for _, s := range ends {
		if m.tellsRecord(s) {
			told = append(told, s)
		}
	}
	return told
}

// live: the claim's lease certainly runs, and its owner did not give it back.
func (m *moves) live(s KeyState) bool {
	return !s.Released && (m.NoLease || m.reached(m.when, s.lease) == no)
}

// mayPrecede: the presented claim may be one of an earlier record. Operations that overlap took effect in either
// order, whatever their numbers say.
func (m *moves) mayPrecede(s KeyState) bool {
	p := m.e.Presented
	return p != 0 && (p < s.Born || p > s.Born && m.e.PresentedCall <= s.bornEnd)
}

// stale is a call whose claim is not the current one. It must be refused; changed is what it would make of the
// record if it were not. Where tokens start again with the record, the store cannot tell an earlier record's claim
// from its own.
func (m *moves) stale(s KeyState, changed ...KeyState) {
	m.stay(m.failed(), s)
	earlier := s.State == Absent || m.mayPrecede(s)
	alike := m.TokenPerRecord && earlier && (s.State == Processing || s.State == Done || s.State == Dead && m.e.Kind == Bury)
	excused := m.excuses(StaleClaimRefused) || earlier && m.excuses(StaleClaimRefusedAfterForgetting)
	if !alike && !excused {
		return
	}
	m.stay(m.e.Answer.Outcome == OK, s)
	if s.State != Processing && !excused {
		return
	}
	behind := excused && m.failed() && m.e.Effect.ID == "" // refused, and done all the same
	for _, next := range changed {
		m.commit(m.e.Answer.Outcome == OK || behind, next)
	}
}

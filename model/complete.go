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
		owner := s.Handle != 0 && s.Handle == m.e.Handle && !s.Released
		must := owner && (m.NoLease || m.reached(m.when, s.lease) == no)
		m.finish(s, s.done(m, 0), must)
	default:
		m.finish(s, s, false)
		if s.State == Done {
			s.updated = m.when
			m.finish(s, s, false)
		}
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
	s.State, s.lease, s.updated, s.Claim, s.Released, s.Nonce = Done, span{}, m.when, claim, false, ""
	if m.e.Kind == CompleteResult {
		s.Result, s.HasResult = m.e.Result, true
	}
	return s
}

// completeClaim is the completion by claim, with or without an effect in the same transaction.
func (m *moves) completeClaim(s KeyState) {
	mine := s.Claim != 0 && s.Claim == m.e.Presented
	switch {
	case s.State == Processing && mine:
		m.finish(s, s.done(m, s.Claim), m.live(s))
	case s.State == Done && mine:
		m.stay(m.e.Answer.Outcome == OK, s)
		if m.excuses(TypedAnswers) {
			m.stay(m.failed(), s)
		}
	case s.State == Done && s.Claim == 0: // completed by key: nobody can say by which claim
		m.finish(s, s, false)
	default:
		m.stale(s, s.done(m, m.e.Presented))
	}
}

// keepClaim is Release, Extend and Bury: what an owner does with its claim other than completing it.
func (m *moves) keepClaim(s KeyState) {
	mine := s.Claim != 0 && s.Claim == m.e.Presented
	switch {
	case s.State == Processing && mine:
		for _, next := range m.kept(s) {
			m.finish(s, next, m.live(s) || m.e.Kind == Release && s.Released)
		}
	case mine: // DONE or DEAD by this very claim: asked again
		m.finish(s, s, false)
	default:
		changed := s
		if s.State == Processing {
			changed = m.kept(s)[0]
		}
		m.stale(s, changed)
	}
}

func (m *moves) kept(s KeyState) []KeyState {
	switch m.e.Kind {
	case Release:
		s.lease, s.Released = at(m.e.VisibleAt), true
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
	if m.e.Answer.Outcome != OK || m.NoTimes {
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

// stale is a call whose claim is not the current one. It must be refused; changed is what it would make of the
// record if it were not.
func (m *moves) stale(s, changed KeyState) {
	m.stay(m.failed(), s)
	earlier := s.State == Absent || m.e.Presented != 0 && m.e.Presented < s.Born
	allowed := m.excuses(StaleClaimRefused) || earlier && m.excuses(StaleClaimRefusedAfterForgetting)
	if earlier && s.State != Absent && m.TokenPerRecord || allowed {
		m.commit(m.e.Answer.Outcome == OK, changed)
		m.stay(m.e.Answer.Outcome == OK, s)
	}
}

package model

// begin is the claim: rows Begin and BeginAs of the table.
func (m *moves) begin(s KeyState) {
	switch s.State {
	case Absent:
		m.claim(s, 1)
		if m.excuses(TypedAnswers) {
			m.refuseAnyhow(s)
		}
	case Processing:
		m.beginClaimed(s)
	default:
		m.refuse(s)
		if m.excuses(DoneStaysDone) {
			m.claim(s, s.Attempts+1)
		}
	}
}

func (m *moves) beginClaimed(s KeyState) {
	over := m.reached(m.when, s.lease)
	if m.NoLease && !s.Released && s.Claim != 0 {
		over = no
	}
	again := m.e.Nonce != "" && m.e.Nonce == s.Nonce
	if (over != yes || m.excuses(TakeoverAfterExpiry)) && again {
		m.regrant(s)
	}
	if over != yes && (!again || s.Released) || over == yes && m.excuses(TakeoverAfterExpiry) {
		m.refuse(s)
	}
	switch {
	case over != no:
		m.takeover(s)
	case m.excuses(ExclusiveClaim):
		m.claimAnyhow(s)
	case m.excuses(NoEarlySteal) && (!m.NoAttempts || m.when.from > s.claimed.to):
		m.shifted = true // a clock that is off shows in the new lease, too, to whichever side
		m.takeover(s)    // one attempt more says that it was meant as a takeover
		m.shifted = false
	}
}

// takeover claims an expired claim, or ends it where the store counts attempts and there were enough. One that was
// replayed is claimable at once, and has its attempts kept: with enough of them the store may do either.
func (m *moves) takeover(s KeyState) {
	if m.spent(s) {
		m.refuse(s.dead())
		if s.Claim != 0 {
			return
		}
	}
	m.claim(s, s.Attempts+1)
}

// spent: the store counts attempts, and there were enough.
func (m *moves) spent(s KeyState) bool {
	return s.State == Processing && m.MaxAttempts > 0 && s.Attempts >= m.MaxAttempts
}

// dead is a claim that was given up because its attempts were spent.
func (s KeyState) dead() KeyState {
	s.State, s.reason = Dead, ""
	return s
}

// claimAnyhow claims what should not have been claimed: as one more attempt, as the same one, or as the first.
func (m *moves) claimAnyhow(s KeyState) {
	m.claim(s, s.Attempts+1)
	m.claim(s, s.Attempts)
	if s.Attempts > 1 {
		m.claim(s.forgotten(), 1)
	}
}

// claim grants the record to the caller with the given attempt.
func (m *moves) claim(s KeyState, attempts int) {
	a := &m.e.Answer
	told := a.Outcome == OK && a.Yes
	fresh := s.State == Absent
	next := KeyState{
		State: Processing, Attempts: attempts, lease: m.leaseEnd(m.e, m.when), claimed: m.when,
		Claim: m.e.Grants, Nonce: m.e.Nonce, Token: s.Token, Born: s.Born, bornEnd: s.bornEnd,
	}
	if fresh {
		next = next.born(m.e)
		next.updated = m.when
		if m.TokenPerRecord {
			next.Token = "" // what an earlier record was told binds no claim of this one
		}
	}
	if !told {
		m.move(false, next)
		return
	}
	if !m.e.Disputed {
		next.Handle = m.e.Handle
	}
	if a.Token != "" {
		next.Token, next.tokenKnown = a.Token, true
	}
	if !m.NoAttempts && a.Attempts != attempts && m.excuses(AttemptsCountClaims) {
		next.Attempts = a.Attempts
	}
	if !m.NoTimes && !m.nearLease(a.LeaseUntil, next.lease) && m.excusesLease(a.LeaseUntil, next.lease) {
		next.lease = at(a.LeaseUntil)
	}
	m.move(m.tellsClaim(s, next, fresh), next)
}

func (m *moves) tellsClaim(s, next KeyState, fresh bool) bool {
	a := &m.e.Answer
	switch {
	case a.State != Processing:
		return m.excuses(TypedAnswers)
	case !m.NoAttempts && a.Attempts != next.Attempts:
		return false
	case !m.newToken(a.Token, s.Token, fresh) && !m.excuses(StaleClaimRefused):
		return false
	case m.NoTimes:
		return true
	}
	// A store that shifts instants shifts both: excused for the lease, it is excused for the other, too.
	shifted := !m.nearLease(a.LeaseUntil, m.leaseEnd(m.e, m.when)) || m.excuses(TypedAnswers)
	return m.nearLease(a.LeaseUntil, next.lease) && (!fresh || shifted || m.near(a.UpdatedAt, next.claimed))
}

// excusesLease: a lease told too short invites an early takeover, one too long delays it.
func (m *moves) excusesLease(told Instant, want span) bool {
	if told < want.from || m.shifted {
		return m.excuses(NoEarlySteal)
	}
	return m.excuses(TakeoverAfterExpiry)
}

// regrant answers the owner of a live claim, who asks again with its nonce: claimed, the record unchanged.
func (m *moves) regrant(s KeyState) {
	a := &m.e.Answer
	next := m.learn(s)
	if a.Outcome != OK || !a.Yes {
		m.move(false, s)
		return
	}
	if s.Handle == 0 {
		next.Claim = m.e.Grants // the first answer was lost: only this one can be presented
	}
	if next.Handle = m.e.Handle; m.e.Disputed {
		next.Handle = 0
	}
	m.move(next.Claim == m.e.Grants && m.tellsRecord(s), next)
}

// refuse answers "not claimed" with the record as it stands.
func (m *moves) refuse(s KeyState) {
	m.move(m.e.Answer.Outcome == OK && !m.e.Answer.Yes && m.tellsRecord(s), m.learn(s))
}

// refuseAnyhow answers "not claimed" although nobody holds the record: nothing was done, or it was claimed for a
// caller who is not told.
func (m *moves) refuseAnyhow(s KeyState) {
	refused := m.e.Answer.Outcome == OK && !m.e.Answer.Yes
	m.move(refused, s)
	m.move(refused, KeyState{
		State: Processing, Attempts: 1, lease: m.leaseEnd(m.e, m.when), claimed: m.when,
		Claim: m.e.ID, Nonce: m.e.Nonce, Token: s.Token,
	}.born(m.e))
}

// learn takes up the token that an answer told of a claim whose own answer was lost.
func (m *moves) learn(s KeyState) KeyState {
	if a := &m.e.Answer; !s.tokenKnown && !s.Released && s.Claim != 0 && a.Outcome == OK && a.Token != "" {
		s.Token, s.tokenKnown = a.Token, true
	}
	return s
}

// tells says whether a Lookup's answer is the record.
func (m *moves) tells(s KeyState, found bool) bool {
	if s.State == Absent {
		return !found
	}
	return found && m.tellsRecord(s)
}

// tellsRecord says whether an answer describes the record. A refused caller need not be told the owner's token,
// and what LeaseUntil says beside DONE decides nothing.
func (m *moves) tellsRecord(s KeyState) bool {
	a := &m.e.Answer
	switch {
	case a.State != s.State:
		return m.excuses(TypedAnswers)
	case !m.NoAttempts && s.Attempts != 0 && a.Attempts != s.Attempts && !m.excuses(AttemptsCountClaims):
		return false
	case a.Token != "" && s.tokenKnown && a.Token != s.Token && !m.excuses(StaleClaimRefused):
		return false
	case s.HasResult && a.Result != s.Result: // an empty result and none are the same to a duplicate
		return m.excuses(DoneStaysDone)
	case s.reason != "" && a.Reason != s.reason && (a.Reason != "" || m.e.Kind == Lookup) && !m.excuses(TypedAnswers):
		return false // a refused caller need not be told why
	case m.NoTimes:
		return true
	case s.State == Processing:
		if s.updated != (span{}) && !m.near(a.UpdatedAt, s.updated) && !m.excuses(TypedAnswers) {
			return false
		}
		return m.nearLease(a.LeaseUntil, s.lease) || m.excusesLease(a.LeaseUntil, s.lease)
	case s.State == Done:
		return m.near(a.UpdatedAt, s.updated) || m.excuses(RememberedInWindow)
	}
	return true
}

package broken

import (
	"context"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The flaws of what an owner does with its claim before the work is done.
const (
	ReleasesByKey     Flaw = "releases-by-key"     // a late owner gives its successor's claim back
	ReleaseOnlyNoted  Flaw = "release-only-noted"  // the reason is kept, and the lease runs on
	ExtendsByKey      Flaw = "extends-by-key"      // a late owner prolongs its successor's claim
	ExtendOnlyNoted   Flaw = "extend-only-noted"   // a renewal that renews nothing
	ExtendsFromClaim  Flaw = "extends-from-claim"  // the new end is counted from the claim
	ChangedRows       Flaw = "changed-rows"        // nothing was changed, so the claim is not current: but nothing had to be
	ExtendReopens     Flaw = "extend-reopens"      // a heartbeat after completion writes PROCESSING back
	RebeginsByName    Flaw = "rebegins-by-name"    // a delivery is known by its consumer's name
	RebeginsCount     Flaw = "rebegins-count"      // asking again is one attempt more
	BuriedTakenOver   Flaw = "buried-taken-over"   // begin knows PROCESSING and DONE, and no DEAD
	ReplayKeepsClaims Flaw = "replay-keeps-claims" // the token stays, and so does the claim from before
	ReplayStartsAgain Flaw = "replay-starts-again" // attempts start again at 1
)

// BeginAs claims under a nonce that names one delivery.
func (m *Memory) BeginAs(_ context.Context, consumer, id, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return m.begin(consumer, id, m.nonce(consumer, nonce), now, lease)
}

func (m *Memory) nonce(consumer, nonce string) string {
	if m.flaw == RebeginsByName && nonce != "" {
		return consumer
	}
	return nonce
}

// asks says whether a live claim's own delivery asks again.
func (m *Memory) asks(r *row, nonce string) bool {
	again := nonce != "" && nonce == r.nonce
	if again && m.flaw == RebeginsCount {
		r.attempts++
	}
	return again
}

// held refuses a claim that is not current, or that its owner has ended or given back.
func (m *Memory) held(r *row, claim model.Record) error {
	switch {
	case r == nil:
		return model.ErrNotFound
	case r.token != claim.Token, r.state != model.Processing, r.released:
		return model.ErrFenced
	}
	return nil
}

// Release gives a claim back.
func (m *Memory) Release(_ context.Context, consumer, id string, claim model.Record, now, visibleAt time.Time, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[m.key(consumer, id)]
	switch {
	case r == nil:
		return model.ErrNotFound
	case r.state != model.Processing, r.token != claim.Token && m.flaw != ReleasesByKey:
		return model.ErrFenced
	}
	r.released, r.reason, r.nonce, r.updated = true, reason, "", now
	if m.flaw != ReleaseOnlyNoted {
		r.until = visibleAt
	}
	return nil
}

// Extend prolongs a claim.
func (m *Memory) Extend(_ context.Context, consumer, id string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[m.key(consumer, id)]
	if r != nil {
		switch {
		case m.flaw == ExtendsByKey:
			claim.Token = r.token
		case m.flaw == ExtendReopens && r.state == model.Done && r.token == claim.Token:
			r.state = model.Processing
		}
	}
	if err := m.held(r, claim); err != nil {
		return model.Record{}, err
	}
	until := m.lease(now, lease)
	if m.flaw == ExtendsFromClaim {
		until = m.lease(r.claimed, lease)
	}
	switch later := until.After(r.until); {
	case later && m.flaw != ExtendOnlyNoted:
		r.until = until
	case !later && m.flaw == ChangedRows:
		return model.Record{}, model.ErrFenced
	}
	return r.record(), nil
}

// Bury gives a message up.
func (m *Memory) Bury(_ context.Context, consumer, id string, claim model.Record, now time.Time, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[m.key(consumer, id)]
	if r != nil && r.state == model.Dead && r.token == claim.Token {
		return nil
	}
	if err := m.held(r, claim); err != nil {
		return err
	}
	r.state, r.reason, r.updated, r.nonce = model.Dead, reason, now, ""
	return nil
}

// Replay opens a dead letter again, under a token that nobody is told.
func (m *Memory) Replay(_ context.Context, consumer, id string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[m.key(consumer, id)]
	switch {
	case r == nil:
		return model.ErrNotFound
	case r.state != model.Dead:
		return model.ErrRefused
	}
	if m.last++; m.flaw != ReplayKeepsClaims {
		r.token = strconv.Itoa(m.last)
	}
	if m.flaw == ReplayStartsAgain {
		r.attempts = 0
	}
	r.state, r.reason, r.until, r.updated = model.Processing, "", now, now
	return nil
}

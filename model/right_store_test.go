package model_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

// rightStore is a store that keeps the contract, written without the model. Where the contract leaves a choice, its
// author makes it once, by the fields of choices.
type rightStore struct {
	choices
	model.Contract
	record    *stored
	lastToken int
	effects   map[string]int // by the effect's ID
	held      map[int]string // the token that each handle's latest successful Begin was told
}

type choices struct {
	lateRefused, completeChecksOwner, doneAgainErrs, doneAgainMoves bool
	extendKeepsLater, releaseEndsClaim, clampVisible                bool
	touchUpdated, hideToken, replayClears                           bool
	// bug is what a wrong store does otherwise; 0: nothing.
	bug int
}

type stored struct {
	model.Record
	nonce    string
	released bool
	doneBy   string // the token that completed it
}

// bugs are what wrong stores do. Each must be found.
var bugs = []string{
	1: "claims one tick early", 2: "claims one tick late", 3: "attempts stay 1", 4: "stale claims complete",
	5: "prune removes UpdatedAt == before", 6: "prune leaves one tick more", 7: "prune removes expired claims", 8: "Complete on absent is ok",
	9: "a refused Begin prolongs the lease", 10: "DONE is claimed after the lease", 11: "the same token at a takeover",
	12: "a stale Extend prolongs", 13: "Extend is told and not done", 14: "a second commit writes again", 15: "commit writes nothing",
	16: "Complete is ok and does nothing", 17: "tokens start again after Prune", 18: "Release is ok and does nothing", 19: "Bury is ok and does nothing",
	20: "Replay loses the attempts", 21: "the nonce is forgotten", 22: "every nonce is the owner's", 23: "Complete keeps the claim's UpdatedAt",
	24: "a stale commit is refused and writes", 25: "the owner is refused in time", 26: "Begin fails now and then", 27: "prune removes DEAD",
}

func (s *rightStore) wrong(n int) bool { return s.bug == n }

func (s *rightStore) token() string {
	if s.wrong(17) && s.record == nil {
		s.lastToken = 0
	}
	s.lastToken++
	return strconv.Itoa(s.lastToken)
}

func (s *rightStore) begin(o *model.Operation, now time.Time) (model.Record, bool, error) {
	if s.wrong(26) && now.Unix()%13 == 0 {
		return model.Record{}, false, fmt.Errorf("contention")
	}
	r := s.record
	switch {
	case r == nil:
		r = &stored{}
	case r.State == model.Dead, r.State == model.Done && !(s.wrong(10) && now.Unix()%40 > 35):
		return s.told(), false, nil
	case r.State == model.Processing && now.Before(s.end(r)):
		same := o.Nonce != "" && o.Nonce == r.nonce && !s.wrong(21) || s.wrong(22) && o.Nonce != ""
		if same && !(r.released && s.releaseEndsClaim) {
			s.held[o.Handle] = r.Token
			return r.Record, true, nil
		}
		if s.wrong(9) {
			r.LeaseUntil = r.LeaseUntil.Add(sec)
		}
		return s.told(), false, nil
	case s.MaxAttempts > 0 && r.Attempts >= s.MaxAttempts:
		r.State, r.LeaseUntil, r.Reason = model.Dead, time.Time{}, "attempts spent"
		return s.told(), false, nil
	}
	token := r.Token
	if !s.wrong(11) || token == "" {
		token = s.token()
	}
	attempts := r.Attempts + 1
	if s.wrong(3) {
		attempts = 1
	}
	s.record = &stored{nonce: o.Nonce, Record: model.Record{State: model.Processing, Attempts: attempts,
		LeaseUntil: now.Add(o.Lease), UpdatedAt: now, Token: token}}
	s.held[o.Handle] = token
	return s.record.Record, true, nil
}

// end is when a claim may be taken over.
func (s *rightStore) end(r *stored) time.Time {
	switch {
	case s.wrong(1):
		return r.LeaseUntil.Add(-sec)
	case s.wrong(2):
		return r.LeaseUntil.Add(sec)
	}
	return r.LeaseUntil
}

func (s *rightStore) told() model.Record {
	r := s.record.Record
	if s.hideToken {
		r.Token, r.Reason = "", ""
	}
	return r
}

func (s *rightStore) finish(now time.Time, token string) {
	r := s.record
	r.State, r.LeaseUntil, r.doneBy, r.released = model.Done, time.Time{}, token, false
	if !s.wrong(23) {
		r.UpdatedAt = now
	}
}

func (s *rightStore) complete(o *model.Operation, now time.Time) error {
	r := s.record
	switch {
	case r == nil && s.wrong(8), s.wrong(16):
		return nil
	case r == nil:
		return model.ErrNotFound
	case r.State == model.Dead:
		return model.ErrFenced
	case r.State == model.Done && s.doneAgainErrs:
		return model.ErrFenced
	case r.State == model.Done:
		if s.doneAgainMoves {
			r.UpdatedAt = now
		}
		return nil
	case s.completeChecksOwner && s.held[o.Handle] != r.Token, s.lateRefused && !now.Before(r.LeaseUntil):
		return model.ErrFenced
	}
	s.finish(now, r.Token)
	return nil
}

// mayUse says whether a claim is current, and in time if the store insists.
func (s *rightStore) mayUse(claim model.Record, now time.Time) error {
	r := s.record
	switch {
	case r == nil:
		return model.ErrNotFound
	case s.wrong(4) && r.State == model.Processing:
		return nil
	case r.State != model.Processing || claim.Token != r.Token:
		return model.ErrFenced
	case s.lateRefused && !now.Before(r.LeaseUntil) || s.wrong(25) && r.Attempts > 1:
		return model.ErrFenced
	}
	return nil
}

func (s *rightStore) completeClaim(o *model.Operation, claim model.Record, now time.Time) error {
	if s.record != nil && s.record.State == model.Done && s.record.doneBy == claim.Token {
		if s.wrong(14) && o.Kind == model.CommitEffect {
			s.effects[o.Effect.ID]++
		}
		return nil
	}
	err := s.mayUse(claim, now)
	if o.Kind == model.CommitEffect && (err == nil && !s.wrong(15) || err != nil && s.wrong(24)) {
		s.effects[o.Effect.ID]++
	}
	if err == nil {
		s.finish(now, claim.Token)
	}
	return err
}

func (s *rightStore) keepClaim(o *model.Operation, claim model.Record, now time.Time) (model.Record, error) {
	r := s.record
	if s.wrong(12) && o.Kind == model.Extend && r != nil && r.State == model.Processing {
		r.LeaseUntil = now.Add(o.Lease)
		return r.Record, nil
	}
	if o.Kind == model.Bury && r != nil && r.State == model.Dead && claim.Token == r.Token {
		return model.Record{}, nil
	}
	if err := s.mayUse(claim, now); err != nil {
		return model.Record{}, err
	}
	if s.touchUpdated {
		r.UpdatedAt = now
	}
	switch {
	case o.Kind == model.Extend:
		end := now.Add(o.Lease)
		if s.extendKeepsLater && r.LeaseUntil.After(end) {
			end = r.LeaseUntil
		}
		told := r.Record
		told.LeaseUntil = end
		if !s.wrong(13) {
			r.LeaseUntil = end
		}
		return told, nil
	case o.Kind == model.Bury && !s.wrong(19):
		r.State, r.LeaseUntil, r.Reason = model.Dead, time.Time{}, o.Reason
	case o.Kind == model.Release && !s.wrong(18):
		r.LeaseUntil, r.Reason, r.released = o.VisibleAt.Time(), o.Reason, true
		if s.clampVisible && r.LeaseUntil.Before(now) {
			r.LeaseUntil = now
		}
	}
	return model.Record{}, nil
}

func (s *rightStore) replay(now time.Time) error {
	r := s.record
	if r == nil || r.State != model.Dead {
		return model.ErrNotFound
	}
	r.State, r.LeaseUntil, r.nonce, r.Token = model.Processing, now, "", s.token()
	if s.replayClears {
		r.LeaseUntil, r.Reason = time.Time{}, ""
	}
	if s.wrong(20) {
		r.Attempts = 0
	}
	return nil
}

func (s *rightStore) prune(before time.Time) int {
	r := s.record
	if r == nil {
		return 0
	}
	old := r.State == model.Done && r.UpdatedAt.Before(before)
	switch {
	case s.wrong(5):
		old = r.State == model.Done && !r.UpdatedAt.After(before)
	case s.wrong(6):
		old = r.State == model.Done && r.UpdatedAt.Before(before.Add(-sec))
	case s.wrong(7):
		old = old || r.State == model.Processing && r.LeaseUntil.Before(before)
	case s.wrong(27):
		old = old || r.State == model.Dead
	}
	if !old {
		return 0
	}
	s.record = nil
	return 1
}

// kept is a record as the store's columns hold it.
func (s *rightStore) kept(r model.Record) model.Record {
	r.LeaseUntil, r.UpdatedAt = r.LeaseUntil.Truncate(s.Precision), r.UpdatedAt.Truncate(s.Precision)
	return r
}

// call lets the store do one operation and writes down what it answered.
func (s *rightStore) call(o *model.Operation, claim model.Record, now time.Time) {
	a := &o.Answer
	var err error
	switch o.Kind {
	case model.Begin, model.BeginAs:
		var r model.Record
		r, a.Yes, err = s.begin(o, now)
		a.SetRecord(s.kept(r))
	case model.Complete:
		err = s.complete(o, now)
	case model.CompleteClaim, model.CommitEffect:
		err = s.completeClaim(o, claim, now)
	case model.Release, model.Extend, model.Bury:
		var r model.Record
		r, err = s.keepClaim(o, claim, now)
		a.SetRecord(s.kept(r))
	case model.Replay:
		err = s.replay(now)
	case model.Prune:
		a.Count = s.prune(o.Before.Time())
	case model.Lookup:
		if a.Yes = s.record != nil; a.Yes {
			a.SetRecord(s.record.Record)
		}
	}
	if s.record != nil {
		s.record.Record = s.kept(s.record.Record)
	}
	a.Outcome = model.OutcomeOf(err)
	switch {
	case err == nil:
		return
	case err == model.ErrFenced:
		*a = model.Answer{Outcome: a.Outcome, Refusal: model.Fenced}
	case err == model.ErrNotFound:
		*a = model.Answer{Outcome: a.Outcome, Refusal: model.NotFound}
	default:
		*a = model.Answer{Outcome: a.Outcome, Refusal: model.Failed, Error: err.Error()}
	}
}

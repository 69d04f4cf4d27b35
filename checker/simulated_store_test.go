package checker_test

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

// simulatedStore keeps the contract in memory, one call at a time, written without the model. Where the contract
// leaves a choice, its author makes it once, by the fields of choices.
type simulatedStore struct {
	choices
	contract  model.Contract
	records   map[model.Key]*simulatedRecord
	tokens    int
	effects   map[string]int
	effectsOf map[string]model.Key
	held      map[heldBy]string // the token that a handle's latest successful claim of a key was told
}

type heldBy struct {
	handle int
	key    model.Key
}

type choices struct {
	lateRefused, checksOwner, doneAgainErrs, doneAgainMoves, extendKeepsLater bool
	releaseEndsClaim, clampVisible, touchUpdated, hideToken, replayClears     bool
	forgetsUnfenced                                                           bool // an absent record is ErrFenced, not ErrNotFound
}

type simulatedRecord struct {
	model.Record
	nonce, doneBy string
	released      bool
}

var errUsed = errors.New("the store's own error")

// at returns the record of a key as time has left it.
func (s *simulatedStore) at(key model.Key, now time.Time) *simulatedRecord {
	r := s.records[key]
	if r == nil {
		return nil
	}
	gone := s.contract.Retention == model.ByItself && r.State == model.Done && !now.Before(r.UpdatedAt.Add(s.contract.Window)) ||
		s.contract.LeaseIsRecord && r.State == model.Processing && !now.Before(r.LeaseUntil)
	if gone {
		delete(s.records, key)
		return nil
	}
	return r
}

func (s *simulatedStore) begin(o *model.Operation, now time.Time) (model.Record, bool, error) {
	r := s.at(o.Key, now)
	switch {
	case r == nil:
		r = &simulatedRecord{}
	case r.State == model.Dead, r.State == model.Done:
		return s.told(r), false, nil
	case r.State == model.Processing && now.Before(r.LeaseUntil):
		if o.Nonce == "" || o.Nonce != r.nonce || r.released && s.releaseEndsClaim {
			return s.told(r), false, nil
		}
		return r.Record, true, nil
	case s.contract.MaxAttempts > 0 && r.Attempts >= s.contract.MaxAttempts:
		r.State, r.LeaseUntil = model.Dead, time.Time{}
		return s.told(r), false, nil
	}
	next := &simulatedRecord{nonce: o.Nonce, Record: model.Record{State: model.Processing, Attempts: r.Attempts + 1,
		LeaseUntil: now.Add(o.Lease), UpdatedAt: now, Token: s.token(r)}}
	s.records[o.Key] = s.kept(next)
	return next.Record, true, nil
}

func (s *simulatedStore) token(r *simulatedRecord) string {
	if s.contract.TokenPerRecord {
		n, _ := strconv.Atoi(r.Token)
		return strconv.Itoa(n + 1)
	}
	s.tokens++
	return strconv.Itoa(s.tokens)
}

// kept is a record as columns of the store's precision hold it.
func (s *simulatedStore) kept(r *simulatedRecord) *simulatedRecord {
	p := s.contract.Precision
	r.LeaseUntil, r.UpdatedAt = r.LeaseUntil.Truncate(p), r.UpdatedAt.Truncate(p)
	return r
}

func (s *simulatedStore) told(r *simulatedRecord) model.Record {
	told := r.Record
	if s.hideToken {
		told.Token, told.Reason = "", ""
	}
	return told
}

func (s *simulatedStore) finish(o *model.Operation, r *simulatedRecord, now time.Time) {
	r.State, r.LeaseUntil, r.UpdatedAt, r.doneBy, r.released = model.Done, time.Time{}, now, r.Token, false
	if o.Kind == model.CompleteResult {
		r.Result = []byte(o.Result)
	}
	s.kept(r)
}

func (s *simulatedStore) absent() error {
	if s.forgetsUnfenced {
		return model.ErrFenced
	}
	return model.ErrNotFound
}

func (s *simulatedStore) complete(o *model.Operation, held string, now time.Time) error {
	r := s.at(o.Key, now)
	switch {
	case r == nil:
		return model.ErrNotFound
	case r.State == model.Dead:
		return model.ErrFenced
	case r.State == model.Done && s.doneAgainErrs:
		return errUsed
	case r.State == model.Done:
		if s.doneAgainMoves {
			r.UpdatedAt = now
			s.kept(r)
		}
		return nil
	case s.checksOwner && held != r.Token, s.lateRefused && !now.Before(r.LeaseUntil):
		return errUsed
	}
	s.finish(o, r, now)
	return nil
}

// mayUse says whether a claim is current, and in time if the store insists.
func (s *simulatedStore) mayUse(r *simulatedRecord, claim model.Record, now time.Time) error {
	switch {
	case r == nil:
		return s.absent()
	case r.State != model.Processing || claim.Token != r.Token:
		return model.ErrFenced
	case r.released && s.releaseEndsClaim, s.lateRefused && !now.Before(r.LeaseUntil):
		return model.ErrFenced
	}
	return nil
}

func (s *simulatedStore) completeClaim(o *model.Operation, claim model.Record, now time.Time) error {
	r := s.at(o.Key, now)
	if r != nil && r.State == model.Done && r.doneBy == claim.Token {
		return nil
	}
	if err := s.mayUse(r, claim, now); err != nil {
		return err
	}
	if o.Kind == model.CommitEffect {
		s.effects[o.Effect.ID]++
	}
	s.finish(o, r, now)
	return nil
}

func (s *simulatedStore) keepClaim(o *model.Operation, claim model.Record, now time.Time) (model.Record, error) {
	r := s.at(o.Key, now)
	switch {
	case r != nil && o.Kind == model.Bury && r.State == model.Dead && claim.Token == r.Token:
		return model.Record{}, nil
	case r != nil && o.Kind == model.Release && r.released && claim.Token == r.Token && now.Before(r.LeaseUntil):
		return model.Record{}, nil
	}
	if err := s.mayUse(r, claim, now); err != nil {
		return model.Record{}, err
	}
	if s.touchUpdated {
		r.UpdatedAt = now
	}
	switch o.Kind {
	case model.Extend:
		end := now.Add(o.Lease)
		if s.extendKeepsLater && r.LeaseUntil.After(end) {
			end = r.LeaseUntil
		}
		r.LeaseUntil = end
		return s.kept(r).Record, nil
	case model.Bury:
		r.State, r.LeaseUntil, r.Reason = model.Dead, time.Time{}, o.Reason
	case model.Release:
		r.LeaseUntil, r.Reason, r.released = o.VisibleAt.Time(), o.Reason, true
		if s.clampVisible && r.LeaseUntil.Before(now) {
			r.LeaseUntil = now
		}
	}
	s.kept(r)
	return model.Record{}, nil
}

func (s *simulatedStore) replay(o *model.Operation, now time.Time) error {
	r := s.at(o.Key, now)
	if r == nil || r.State != model.Dead {
		return errUsed
	}
	r.State, r.LeaseUntil, r.nonce, r.Token, r.released = model.Processing, now, "", s.token(r), false
	if s.replayClears {
		r.Reason = ""
	}
	s.kept(r)
	return nil
}

func (s *simulatedStore) applyOnce(o *model.Operation, now time.Time) bool {
	if s.at(o.Key, now) != nil {
		return false
	}
	s.effects[o.Effect.ID]++
	s.records[o.Key] = s.kept(&simulatedRecord{Record: model.Record{State: model.Done, UpdatedAt: now}})
	return true
}

// pruneKey is what a Prune does when it comes to one record.
func (s *simulatedStore) pruneKey(key model.Key, before time.Time) int {
	r := s.records[key]
	if r == nil || r.State != model.Done || !r.UpdatedAt.Before(before) {
		return 0
	}
	delete(s.records, key)
	return 1
}

// call does one operation other than a Prune, and says what it is answered.
func (s *simulatedStore) call(o *model.Operation, claim model.Record, held string, now time.Time) model.Answer {
	var (
		r   model.Record
		a   model.Answer
		err error
	)
	switch o.Kind {
	case model.Begin, model.BeginAs:
		r, a.Yes, err = s.begin(o, now)
	case model.Complete:
		err = s.complete(o, held, now)
	case model.CompleteClaim, model.CommitEffect, model.CompleteResult:
		err = s.completeClaim(o, claim, now)
	case model.Release, model.Extend, model.Bury:
		r, err = s.keepClaim(o, claim, now)
	case model.Replay:
		err = s.replay(o, now)
	case model.ApplyOnce:
		a.Yes = s.applyOnce(o, now)
	case model.Lookup:
		if rec := s.at(o.Key, now); rec != nil {
			r, a.Yes = rec.Record, true
		}
	}
	if err != nil {
		return refusal(err)
	}
	a.Outcome = model.OK
	if o.Kind.Claims() || o.Kind == model.Extend || o.Kind == model.Lookup {
		a.SetRecord(s.reported(r))
	}
	return a
}

// reported leaves out what the contract says the store does not tell.
func (s *simulatedStore) reported(r model.Record) model.Record {
	if s.contract.NoAttempts {
		r.Attempts = 0
	}
	if s.contract.NoTimes {
		r.LeaseUntil, r.UpdatedAt = time.Time{}, time.Time{}
	}
	return r
}

func refusal(err error) model.Answer {
	a := model.Answer{Outcome: cmp.Or(model.OutcomeOf(err), model.NotApplied), Error: err.Error()}
	switch {
	case errors.Is(err, model.ErrFenced):
		a.Refusal = model.Fenced
	case errors.Is(err, model.ErrNotFound):
		a.Refusal = model.NotFound
	default:
		a.Refusal = model.Failed
	}
	return a
}

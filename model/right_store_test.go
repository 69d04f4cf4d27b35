package model_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

// rightStore is a store that keeps the contract, written without the model. Where the contract leaves a choice, its
// author makes it once, by the fields of choices.
type rightStore struct {
	choices
	model.Contract
	record      *stored
	lastToken   int
	effects     map[string]int // by the effect's ID
	ownerHandle int            // of the latest claim
}

type choices struct {
	lateRefused, completeChecksOwner, doneAgainErrs, doneAgainMoves  bool
	extendKeepsLater, releaseEndsClaim, releaseRotates, clampVisible bool
	touchUpdated, hideToken, replayClears                            bool
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
			s.ownerHandle = o.Handle
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
	s.ownerHandle = o.Handle
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
	case s.completeChecksOwner && o.Handle != s.ownerHandle, s.lateRefused && !now.Before(r.LeaseUntil):
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

// call lets the store do one operation and writes down what it answered.
func (s *rightStore) call(o *model.Operation, claim model.Record) {
	now, a := o.Now.Time(), &o.Answer
	var err error
	switch o.Kind {
	case model.Begin, model.BeginAs:
		var r model.Record
		r, a.Yes, err = s.begin(o, now)
		a.SetRecord(r)
	case model.Complete:
		err = s.complete(o, now)
	case model.CompleteClaim, model.CommitEffect:
		err = s.completeClaim(o, claim, now)
	case model.Release, model.Extend, model.Bury:
		var r model.Record
		r, err = s.keepClaim(o, claim, now)
		a.SetRecord(r)
	case model.Replay:
		err = s.replay(now)
	case model.Prune:
		a.Count = s.prune(o.Before.Time())
	case model.Lookup:
		if a.Yes = s.record != nil; a.Yes {
			a.SetRecord(s.record.Record)
		}
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

var everyKind = []model.Kind{
	model.Begin, model.Begin, model.Begin, model.BeginAs, model.BeginAs, model.Complete, model.CompleteClaim, model.CompleteClaim, model.CommitEffect, model.CommitEffect,
	model.Release, model.Extend, model.Bury, model.Replay, model.Prune, model.Prune, model.Lookup,
}

// live draws a history of a store: calls one after the other by clocks that disagree, some of whose replies or
// requests are lost.
func live(s *rightStore, rnd *rand.Rand, n int) *model.History {
	h := &model.History{Store: "right", Epoch: epoch, Contract: s.Contract, LedgerRead: 1 << 40, Faults: []model.Fault{{ID: 1, Name: "lost", From: 1}}}
	s.effects = map[string]int{}
	claims := map[int]model.Record{}
	clock := time.Duration(0)
	for i := range n {
		kind := everyKind[rnd.IntN(len(everyKind))]
		clock += time.Duration(rnd.IntN(6)) * sec
		c := timed(kind, clock+time.Duration(rnd.IntN(3)-1)*sec).handle(1 + rnd.IntN(3))
		o := &c.o
		o.ID, o.Call, o.Return = i+1, int64(2*i+1), int64(2*i+2)
		o.Lease = time.Duration(1+rnd.IntN(10)) * sec
		switch kind {
		case model.BeginAs:
			o.Nonce = "n" + strconv.Itoa(rnd.IntN(3))
		case model.Prune:
			o.Now, o.Before, o.Lease = model.NoInstant, instant(clock-time.Duration(rnd.IntN(8))*sec), 0
		case model.Release:
			o.VisibleAt, o.Reason = o.Now.Add(time.Duration(rnd.IntN(12)-4)*sec), "why"
		case model.Bury:
			o.Reason = "poison"
		case model.CommitEffect:
			o.Effect.ID, o.Effect.Amount = "e"+strconv.Itoa(o.ID), 1
		case model.Lookup:
			o.Now = model.NoInstant
		}
		if !kind.Claims() && kind != model.Extend {
			o.Lease = 0
		}
		claim := model.Record{Token: "none"}
		if kind.Fenced() && len(claims) > 0 {
			for back := 0; o.Claim == 0; back++ { // a recent one, mostly
				id := o.ID - 1 - back - rnd.IntN(3)*rnd.IntN(8)
				if r, granted := claims[id]; granted {
					o.Claim, claim = id, r
				}
			}
		}
		switch fate := rnd.IntN(20); fate {
		case 0: // the request is lost
			o.Answer, o.Fault = model.Answer{Refusal: model.Failed}, 1
		case 1, 2: // the reply is lost, and perhaps seen by the kit
			s.call(o, claim)
			o.Answer, o.Fault, o.Applied = model.Answer{Refusal: model.Failed}, 1, fate == 2
		default:
			s.call(o, claim)
		}
		h.Operations = append(h.Operations, *o)
		if o.Granted() {
			claims[o.ID] = o.Answer.Record()
		}
	}
	for id, rows := range s.effects {
		for range rows {
			h.Effects = append(h.Effects, model.EffectRow{Effect: model.Effect{ID: id}})
		}
	}
	return h
}

func draw(rnd *rand.Rand) *rightStore {
	flip := func() bool { return rnd.IntN(2) == 0 }
	s := &rightStore{choices: choices{
		lateRefused: flip(), completeChecksOwner: flip(), doneAgainErrs: flip(), doneAgainMoves: flip(), extendKeepsLater: flip(),
		releaseEndsClaim: flip(), clampVisible: flip(), touchUpdated: flip(), hideToken: flip(), replayClears: flip(),
	}}
	if flip() {
		s.MaxAttempts = 1 + rnd.IntN(4)
	}
	s.OrderedToken = flip()
	s.RefusesLate = s.lateRefused && flip()
	return s
}

// guilty is the first operation that nothing explains; 0: none.
func guilty(h *model.History) (id int, before model.Possible) {
	rules, now, events := model.NewRules(h.Contract), model.Fresh(), h.Events()
	for i := range events {
		next := now.Next(rules, &events[i])
		if len(next) == 0 {
			return events[i].ID, now
		}
		now = next
	}
	return 0, nil
}

func TestARightStoreIsNeverAccused(t *testing.T) {
	plans := 20_000
	if testing.Short() {
		plans = 2_000
	}
	for seed := range uint64(plans) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := draw(rnd)
		h := live(s, rnd, 40)
		if err := h.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if id, before := guilty(h); id != 0 {
			t.Fatalf("seed %d: operation %d is refused in %q; choices %+v\n%s", seed, id, describe(h, before), s.choices, h.Print())
		}
	}
}

func TestAWrongStoreIsFound(t *testing.T) {
	for bug, name := range bugs {
		if bug == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			const within = 500
			for seed := range uint64(within) {
				rnd := rand.New(rand.NewPCG(seed, 2))
				s := draw(rnd)
				s.bug = bug
				if id, _ := guilty(live(s, rnd, 40)); id != 0 {
					t.Logf("found by plan %d", seed+1)
					return
				}
			}
			t.Errorf("not found in %d plans", within)
		})
	}
}

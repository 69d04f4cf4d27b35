package model_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

var everyKind = []model.Kind{
	model.Begin, model.Begin, model.Begin, model.BeginAs, model.BeginAs, model.Complete, model.CompleteClaim, model.CompleteClaim, model.CommitEffect, model.CommitEffect,
	model.Release, model.Extend, model.Bury, model.Replay, model.Prune, model.Prune, model.Lookup,
}

// live draws a history of a store: calls one after the other by clocks that disagree, some of whose replies or
// requests are lost.
func live(s *rightStore, rnd *rand.Rand, n int) *model.History {
	h := &model.History{Store: "right", Epoch: epoch, Contract: s.Contract, LedgerRead: 1 << 40, Faults: []model.Fault{{ID: 1, Name: "lost", From: 1}}}
	s.effects, s.held = map[string]int{}, map[int]string{}
	claims := map[int]model.Record{}
	clock := time.Duration(0)
	for i := range n {
		kind := everyKind[rnd.IntN(len(everyKind))]
		clock += time.Duration(rnd.IntN(6)) * sec
		c := timed(kind, clock+time.Duration(rnd.IntN(3)-1)*sec).handle(1 + rnd.IntN(3))
		o := &c.o
		if s.Precision > 0 && rnd.IntN(3) == 0 {
			o.Now = o.Now.Add(time.Duration(rnd.Int64N(int64(2 * s.Precision))))
		}
		now := o.Now.Time()
		if s.Clock == model.ServerClock {
			took := time.Duration(rnd.Int64N(int64(2 * sec)))
			now = instant(clock + time.Duration(rnd.Int64N(int64(took)+1))).Time()
			c.around(clock, clock+took)
			clock += took
			now = now.Add(time.Duration(rnd.IntN(51)-25) * ms)
			o.Now = o.Now.Add(time.Duration(rnd.IntN(2000)-1000) * sec) // of no influence
		}
		o.ID, o.Call, o.Return = i+1, int64(2*i+1), int64(2*i+2)
		o.Lease = time.Duration(1+rnd.IntN(10)) * sec
		switch kind {
		case model.BeginAs:
			o.Nonce = "n" + strconv.Itoa(rnd.IntN(3))
		case model.Prune:
			o.Now, o.Before, o.Lease = model.NoInstant, instant(clock-time.Duration(rnd.IntN(8))*sec), 0
		case model.Release:
			o.VisibleAt, o.Reason = instant(clock+time.Duration(rnd.IntN(12)-4)*sec), "why"
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
		if kind.Fenced() {
			for back := 0; o.Claim == 0 && back < o.ID; back++ { // a recent one, mostly
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
			s.call(o, claim, now)
			o.Answer, o.Fault, o.Applied = model.Answer{Refusal: model.Failed}, 1, fate == 2
		default:
			s.call(o, claim, now)
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
	if flip() && flip() {
		s.Clock = model.ServerClock
	}
	if flip() && flip() {
		s.Precision = ms
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
	plans := 5_000
	if testing.Short() {
		plans = 1_000
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

package checker_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

// epoch is what the instants of these tests are offsets from.
var epoch = model.InstantOf(time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC))

// simulation runs lanes of callers against a simulatedStore and records what a recorder would: when each call was
// made, answered and closed. Every operation takes effect at one moment of its own between its call and its end; a
// Prune comes to each record at a moment of its own.
type simulation struct {
	rnd    *rand.Rand
	store  *simulatedStore
	h      *model.History
	keys   []model.Key
	kinds  []model.Kind
	lanes  []lane
	ghosts []*running          // answered as unknown, and perhaps still on their way
	claims map[model.Key][]int // operations whose claim a worker knows
	moment int64
	clock  time.Duration
	// lossy: one call in so many has no answer; 0: none.
	lossy int
	// oneByOne: no two calls are open at once, though unknown ones may close late.
	oneByOne bool
	// pruneEvery so many calls, if not 0, a Prune is made.
	pruneEvery int
}

// lane is one caller: two lanes with one handle are two calls at once on it.
type lane struct {
	worker, handle int
	now            *running
}

type fate int

const (
	answered     fate = iota
	unseen            // the kit loses the answer
	kept              // a fault keeps the call from the store, and that is proved
	requestLost       // never takes effect
	replyLost         // takes effect, before or after its caller gave up
	neverReturns      // and may take effect at any time, or not
)

type running struct {
	id      int
	fate    fate
	applies bool
	applied bool
	held    string      // the claim that the handle had in mind at the call
	visits  []model.Key // what is left of a Prune
	answer  model.Answer
}

var storeKinds = []model.Kind{
	model.Begin, model.Begin, model.Begin, model.Begin, model.BeginAs, model.BeginAs, model.Complete, model.CompleteClaim,
	model.CompleteClaim, model.CommitEffect, model.CommitEffect, model.CompleteResult, model.Release, model.Extend,
	model.Bury, model.Replay, model.Prune, model.Prune, model.Lookup, model.Lookup,
}

var inboxKinds = []model.Kind{model.ApplyOnce, model.ApplyOnce, model.ApplyOnce, model.Prune, model.Lookup}

func (s *simulation) op(r *running) *model.Operation { return &s.h.Operations[r.id-1] }

func (s *simulation) tick() int64 { s.moment++; return s.moment }

func (s *simulation) chance(n int) bool { return s.rnd.IntN(n) == 0 }

// run makes n calls and lets all but the lost ones end.
func (s *simulation) run(n int) *model.History {
	early := s.rnd.IntN(4 * n)
	for len(s.h.Operations) < n {
		s.step(true)
		if len(s.h.Operations) == early && s.h.LedgerRead == 0 {
			s.readLedger()
		}
	}
	for range 20 * n {
		s.step(false)
	}
	for i := range s.lanes {
		for s.lanes[i].now != nil {
			s.advance(&s.lanes[i])
		}
	}
	if s.h.LedgerRead == 0 {
		s.readLedger()
	}
	return s.h
}

func (s *simulation) readLedger() {
	s.h.LedgerRead = s.tick()
	for _, id := range slices.Sorted(maps.Keys(s.store.effects)) {
		for range s.store.effects[id] {
			e := model.EffectRow{Key: s.store.effectsOf[id]}
			e.Effect.ID, e.Effect.Amount = id, 3
			s.h.Effects = append(s.h.Effects, e)
		}
	}
}

func (s *simulation) step(more bool) {
	if len(s.ghosts) > 0 && s.chance(3) {
		s.haunt(s.rnd.IntN(len(s.ghosts)))
		return
	}
	i := s.rnd.IntN(len(s.lanes))
	l := &s.lanes[i]
	if s.oneByOne {
		for j := range s.lanes {
			if s.lanes[j].now != nil {
				l = &s.lanes[j]
			}
		}
	}
	switch {
	case l.now != nil:
		s.advance(l)
	case more:
		s.call(l)
	}
}

// advance brings a call to its effect, or from its effect to its end.
func (s *simulation) advance(l *lane) {
	r := l.now
	if !r.applied && (r.fate == answered || r.fate == unseen || r.applies && s.chance(2)) {
		s.apply(r)
		return
	}
	o := s.op(r)
	l.now = nil
	if r.fate == neverReturns {
		s.ghosts = append(s.ghosts, r)
		return
	}
	o.Return = s.tick()
	if s.store.contract.Clock == model.ServerClock {
		o.ReturnedAt = epoch.Add(s.clock)
	}
	switch r.fate {
	case answered, unseen:
		o.Answer, o.Unseen = r.answer, r.fate == unseen
		if o.Granted() && !o.Unseen {
			if s.claims == nil {
				s.claims = map[model.Key][]int{}
			}
			s.claims[o.Key] = append(s.claims[o.Key], o.ID)
		}
		if o.Granted() {
			s.store.held[heldBy{o.Handle, o.Key}] = o.Answer.Token
		}
	case kept:
		o.Answer = model.Answer{Outcome: model.NotApplied, Refusal: model.Failed, Error: "dial"}
	default:
		o.Answer = model.Answer{Refusal: model.Failed, Error: "reset"}
		if r.applied && s.chance(2) {
			o.Applied, o.Closed = true, o.Return // the server's whole reply was seen
		} else {
			s.ghosts = append(s.ghosts, r)
		}
	}
}

// haunt lets a call that its caller gave up take effect, or closes it.
func (s *simulation) haunt(i int) {
	r := s.ghosts[i]
	if r.applies && !r.applied {
		s.apply(r)
		return
	}
	if r.fate != neverReturns || s.chance(2) {
		s.op(r).Closed = s.tick()
	}
	if s.op(r).Closed != 0 || s.chance(4) { // the others stay open for ever
		s.ghosts = append(s.ghosts[:i], s.ghosts[i+1:]...)
	}
}

func (s *simulation) call(l *lane) {
	s.clock += time.Duration(s.rnd.IntN(4)) * time.Second
	o := model.Operation{ID: len(s.h.Operations) + 1, Worker: l.worker, Handle: l.handle, Call: s.tick()}
	o.Kind = s.kinds[s.rnd.IntN(len(s.kinds))]
	if s.pruneEvery > 0 && o.ID%s.pruneEvery == 0 {
		o.Kind = model.Prune
	}
	r := &running{id: o.ID, fate: s.fate()}
	r.applies = r.fate != requestLost && r.fate != kept && (r.fate != neverReturns || s.chance(2))
	if r.fate > unseen {
		o.Fault = 1
	}
	s.invoke(&o, r)
	s.h.Operations = append(s.h.Operations, o)
	l.now = r
}

func (s *simulation) fate() fate {
	if s.lossy == 0 || !s.chance(s.lossy) {
		return answered
	}
	return fate(1 + s.rnd.IntN(5))
}

func (s *simulation) invoke(o *model.Operation, r *running) {
	server := s.store.contract.Clock == model.ServerClock
	if server {
		o.CalledAt = epoch.Add(s.clock)
	}
	if o.Kind == model.Prune {
		o.Before = epoch.Add(s.clock - time.Duration(s.rnd.IntN(8))*time.Second)
		for range 1 + s.rnd.IntN(2) { // in batches, it may come by twice
			for _, i := range s.rnd.Perm(len(s.keys)) {
				r.visits = append(r.visits, s.keys[i])
			}
		}
		return
	}
	o.Key = s.keys[s.rnd.IntN(len(s.keys))]
	r.held = s.store.held[heldBy{o.Handle, o.Key}]
	if o.Kind == model.Lookup {
		return
	}
	o.Now = epoch.Add(s.clock + time.Duration(s.rnd.IntN(3)-1)*time.Second)
	if p := s.store.contract.Precision; p > 0 && s.chance(3) {
		o.Now = o.Now.Add(time.Duration(s.rnd.Int64N(2 * int64(p))))
	}
	if o.Kind.Claims() || o.Kind == model.Extend {
		o.Lease = time.Duration(1+s.rnd.IntN(10)) * time.Second
	}
	switch o.Kind {
	case model.BeginAs:
		o.Nonce = "n" + strconv.Itoa(s.rnd.IntN(3))
	case model.Release:
		o.VisibleAt, o.Reason = epoch.Add(s.clock+time.Duration(s.rnd.IntN(12)-4)*time.Second), "why"
	case model.Bury:
		o.Reason = "poison"
	case model.CompleteResult:
		o.Result = "result of " + strconv.Itoa(o.ID)
	case model.CommitEffect, model.ApplyOnce:
		o.Effect.ID, o.Effect.Amount = "e"+strconv.Itoa(o.ID), 3
		s.store.effectsOf[o.Effect.ID] = o.Key
	}
	if o.Kind.Fenced() {
		o.Claim = s.someClaim(o.Key)
	}
}

// someClaim is mostly a recent claim of the key, sometimes an old one or none.
func (s *simulation) someClaim(key model.Key) int {
	for back := len(s.claims[key]) - 1; back >= 0; back-- {
		if !s.chance(4) {
			return s.claims[key][back]
		}
	}
	return 0
}

// apply is the moment at which a call takes effect.
func (s *simulation) apply(r *running) {
	o := s.op(r)
	if o.Kind == model.Prune {
		s.visit(r, o)
		return
	}
	now := o.Now
	if s.store.contract.Clock == model.ServerClock || now == model.NoInstant {
		now = epoch.Add(s.clock)
	}
	claim := model.Record{Token: "none"}
	if o.Claim > 0 {
		claim = s.h.Operations[o.Claim-1].Answer.Record()
	}
	r.applied = true
	r.answer = s.store.call(o, claim, r.held, now.Time())
}

// visit lets a Prune come to its next record.
func (s *simulation) visit(r *running, o *model.Operation) {
	if len(r.visits) == 0 {
		r.applied, r.answer.Outcome = true, model.OK
		return
	}
	if most := s.store.contract.PruneAtMost; most == 0 || r.answer.Count < most {
		r.answer.Count += s.store.pruneKey(r.visits[0], o.Before.Time())
	}
	r.visits = r.visits[1:]
}

// simulate draws a store, its contract and its callers, and runs them.
func simulate(seed uint64, calls int, oneByOne bool) *model.History {
	rnd := rand.New(rand.NewPCG(seed, 7))
	s := &simulation{rnd: rnd, store: drawStore(rnd), kinds: storeKinds, oneByOne: oneByOne}
	s.lossy = []int{0, 6, 12, 30}[rnd.IntN(4)]
	s.h = &model.History{Store: "simulated", Scenario: "simulated", Seed: seed, Epoch: epoch, Contract: s.store.contract,
		Faults: []model.Fault{{ID: 1, Name: "reply lost", From: 1}}}
	if rnd.IntN(8) == 0 {
		s.kinds, s.h.Contract.NoAttempts, s.store.contract.NoAttempts = inboxKinds, true, true
	}
	for i := range 1 + rnd.IntN(3) {
		s.keys = append(s.keys, model.Key{Consumer: "orders", ID: "m-" + strconv.Itoa(i)})
	}
	for i := range 1 + rnd.IntN(4) {
		s.lanes = append(s.lanes, lane{worker: i + 1, handle: 1 + i*(1+rnd.IntN(2))/2})
	}
	return s.run(calls)
}

func drawStore(rnd *rand.Rand) *simulatedStore {
	flip := func() bool { return rnd.IntN(2) == 0 }
	seldom := func() bool { return rnd.IntN(5) == 0 }
	s := newSimulatedStore(model.Contract{})
	s.choices = choices{
		lateRefused: flip(), checksOwner: flip(), doneAgainErrs: flip(), doneAgainMoves: flip(), extendKeepsLater: flip(),
		releaseEndsClaim: flip(), clampVisible: flip(), touchUpdated: flip(), hideToken: flip(), replayClears: flip(),
		forgetsUnfenced: flip(),
	}
	c := &s.contract
	c.OrderedToken = flip()
	c.RefusesLate = s.lateRefused && flip()
	c.NoAttempts, c.NoTimes = seldom(), seldom()
	if seldom() {
		c.MaxAttempts = 1 + rnd.IntN(4)
	}
	if seldom() {
		c.PruneAtMost = 1
	}
	if seldom() {
		c.Clock = model.ServerClock
	}
	if seldom() {
		c.Precision = time.Millisecond
	}
	if seldom() {
		c.Retention, c.Window, c.Redelivery = model.ByItself, 20*time.Second, 10*time.Second
		c.LeaseIsRecord = flip()
	}
	if seldom() {
		c.TokenPerRecord, c.OrderedToken = true, false
	}
	return s
}

func newSimulatedStore(c model.Contract) *simulatedStore {
	return &simulatedStore{contract: c, records: map[model.Key]*simulatedRecord{}, effects: map[string]int{},
		effectsOf: map[string]model.Key{}, held: map[heldBy]string{}}
}

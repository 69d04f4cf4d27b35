package checker

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/effectonce/effectonce/model"
)

const (
	defaultTimeout = 5 * time.Second
	// keysAtFullTime is for how many keys of one history porcupine may use its whole time.
	keysAtFullTime = 4
	// briefly is what it gets for each further key.
	briefly = 20 * time.Millisecond
)

// budget bounds porcupine's work.
type budget struct{ key, left time.Duration }

func newBudget(timeout time.Duration) budget {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return budget{timeout, keysAtFullTime * timeout}
}

func (b *budget) next() time.Duration { return max(min(b.key, b.left), min(b.key, briefly)) }

// placed is one operation as porcupine places it.
type placed struct {
	*model.Event
	// optional operations need not have happened: those of unknown outcome, and the further times that one Prune may
	// meet a record. They are placed only where they change something, and all the rest at the end, where it is too
	// late: a search that tried "it did nothing" at every place would not come to an end.
	optional bool
	// times counts the further times of one Prune, from 1.
	times int
}

// explanation is an order of operations, last first, and the states that it leaves.
type explanation struct {
	states model.Possible
	hash   uint64
	last   *placed
	idle   bool // the last one did not happen
	before *explanation
	length int
	needed int   // how many of the operations are not optional
	called int64 // the latest call among the operations
}

// search is one run of porcupine. It remembers the longest explanation, which porcupine itself tells only at many
// times the cost, and the states in which the operation of interest was refused.
type search struct {
	rules   *model.Rules
	seed    maphash.Seed
	needed  int
	longest *explanation
	buffer  []model.KeyState

	suspect   *model.Event
	refusedAt int // what was needed of the explanations that refusedIn belongs to
	refusedIn model.Possible
}

// run decides whether some order of a key's operations, within their intervals, explains the answers. An unknown
// outcome may take effect until it was closed, or never. After Unknown the search must not be read: porcupine may
// still be at it.
func (s *search) run(events []*model.Event, timeout time.Duration) porcupine.CheckResult {
	start := &explanation{states: model.Fresh()}
	s.longest = start
	s.seed = maphash.MakeSeed()
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init:  func() any { return start },
		Step:  func(state, input, _ any) (bool, any) { return s.step(state.(*explanation), input.(*placed)) },
		Equal: func(a, b any) bool { return a.(*explanation).states.Equal(b.(*explanation).states) },
		Hash:  func(state any) uint64 { return state.(*explanation).hash },
	}, s.place(events), timeout)
}

func (s *search) place(events []*model.Event) []porcupine.Operation {
	operations := make([]porcupine.Operation, 0, len(events))
	add := func(in placed) {
		o := porcupine.Operation{ClientId: in.Worker, Input: &in, Call: in.Call, Return: end(in.Event)}
		if in.optional {
			o.Return = math.MaxInt64
		} else {
			s.needed++
		}
		operations = append(operations, o)
	}
	for _, e := range events {
		add(placed{Event: e, optional: optional(e)})
		if e.Kind == model.Prune {
			for i := range besides(events, e) {
				add(placed{e, true, i + 1})
			}
		}
	}
	return operations
}

// optional: nothing says that it took effect.
func optional(e *model.Event) bool {
	lost := e.Return == 0 || e.Answer.Outcome == model.Unknown && e.Fault != 0
	return lost && !e.Applied && e.Rows <= 0
}

func (s *search) step(now *explanation, in *placed) (bool, any) {
	if in.optional && now.needed == s.needed {
		return true, s.longer(&explanation{
			states: now.states, hash: now.hash, last: in, idle: true, before: now, length: now.length + 1, needed: now.needed, called: now.called,
		})
	}
	states := s.after(now, in)
	if len(states) == 0 {
		if in.Event == s.suspect {
			s.refused(now)
		}
		return false, now
	}
	next := &explanation{states: states, last: in, before: now, length: now.length + 1, needed: now.needed, called: max(now.called, in.Call)}
	if !in.optional {
		next.needed++
	}
	for i := range states { // a sum, since the order of the states does not matter
		next.hash += maphash.Comparable(s.seed, states[i])
	}
	return true, s.longer(next)
}

func (s *search) longer(x *explanation) *explanation {
	if x.length > s.longest.length {
		s.longest = x
	}
	return x
}

// after is what an operation makes of the states; none: it has no place here.
func (s *search) after(now *explanation, in *placed) model.Possible {
	switch {
	case !in.optional:
		return now.states.Next(s.rules, in.Event)
	case now.called > end(in.Event), in.times > 1 && !now.contains(in.ID, in.times-1):
		return nil
	}
	return s.happens(now.states, in)
}

// happens is what an optional operation makes of the states that it changes.
func (s *search) happens(states model.Possible, in *placed) model.Possible {
	var changed model.Possible
	for i := range states {
		if in.times > 0 {
			s.buffer = s.rules.StepOptional(s.buffer[:0], states[i], in.Event)
		} else {
			s.buffer = s.rules.Step(s.buffer[:0], states[i], in.Event)
		}
		for _, n := range s.buffer {
			if n != states[i] && !slices.Contains(changed, n) {
				changed = append(changed, n)
			}
		}
	}
	return changed
}

// contains: further times of a Prune are alike, so that they are placed in one order only.
func (x *explanation) contains(id, times int) bool {
	for ; x.before != nil; x = x.before {
		if x.last.ID == id && x.last.times == times {
			return true
		}
	}
	return false
}

// refused keeps the states of the longest explanations that the suspect did not fit to.
func (s *search) refused(by *explanation) {
	if by.needed > s.refusedAt {
		s.refusedAt, s.refusedIn = by.needed, nil
	}
	if by.needed == s.refusedAt && len(s.refusedIn) < statesShown {
		for _, state := range by.states {
			if !slices.Contains(s.refusedIn, state) {
				s.refusedIn = append(s.refusedIn, state)
			}
		}
	}
}

// linear judges a key by porcupine.
func (j *Judge) linear(rules *model.Rules, g *group, out *Judgement) (*finding, string) {
	s := search{rules: rules}
	result, limit := j.search(&s, g.key, g.events)
	switch result {
	case porcupine.Ok:
		j.walk.along(rules, s.longest.order(), out)
		return nil, ""
	case porcupine.Unknown:
		countEffects(g, &out.Effects)
		return nil, limit
	}
	countEffects(g, &out.Effects)
	return j.firstUnexplained(rules, g), ""
}

func (j *Judge) search(s *search, key model.Key, events []*model.Event) (porcupine.CheckResult, string) {
	timeout := j.budget.next()
	began := time.Now()
	result := s.run(events, timeout)
	j.budget.left -= time.Since(began)
	if result != porcupine.Unknown {
		return result, ""
	}
	return result, fmt.Sprintf("key %v with %d operations that overlap was not decided within %v; raise Judge.Timeout (now %v)",
		key, len(events), timeout, j.budget.key)
}

// order lists what happened in an explanation, first to last.
func (x *explanation) order() []*placed {
	order := make([]*placed, 0, x.length)
	for ; x.before != nil; x = x.before {
		if !x.idle {
			order = append(order, x.last)
		}
	}
	slices.Reverse(order)
	return order
}

// firstUnexplained finds the answer to point at: up to any moment before it came, all answers have an explanation.
func (j *Judge) firstUnexplained(rules *model.Rules, g *group) *finding {
	var moments []int64
	of := map[int64]*model.Event{}
	for _, e := range g.events {
		for _, moment := range []int64{told(e), end(e)} {
			moments = append(moments, moment)
			of[moment] = e
		}
	}
	slices.Sort(moments)
	low, high := 0, len(moments)-1 // what is cut at high has no explanation
	for low < high {
		middle := (low + high) / 2
		s := search{rules: rules}
		if result, _ := j.search(&s, g.key, cut(g.events, moments[middle])); result == porcupine.Illegal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	f := &finding{key: g.key, moment: moments[high], guilty: of[moments[high]]}
	until := cut(g.events, f.moment)
	s := search{rules: rules}
	for _, e := range until {
		if e.ID == f.guilty.ID {
			s.suspect = e
		}
	}
	if result, _ := j.search(&s, g.key, until); result != porcupine.Unknown {
		f.before = s.refusedIn
	}
	return f
}

// end is the last moment at which an operation can take effect.
func end(e *model.Event) int64 {
	if end := e.End(); end != 0 {
		return end
	}
	return math.MaxInt64
}

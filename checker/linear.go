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

// placed is one operation as porcupine places it. optional marks the further times that one Prune may meet a
// record: see [model.Rules.StepOptional].
type placed struct {
	*model.Event
	optional bool
}

// explanation is an order of operations, last first, and the states that it leaves.
type explanation struct {
	states model.Possible
	hash   uint64
	last   placed
	before *explanation
	length int
}

// search is one run of porcupine. It remembers the longest explanation, which porcupine itself tells only at many
// times the cost, and the states in which the operation of interest was refused.
type search struct {
	rules   *model.Rules
	seed    maphash.Seed
	longest *explanation

	suspect   *model.Event
	refusedAt int // the length of the explanations that refusedIn belongs to
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
		Step:  func(state, input, _ any) (bool, any) { return s.step(state.(*explanation), input.(placed)) },
		Equal: func(a, b any) bool { return a.(*explanation).states.Equal(b.(*explanation).states) },
		Hash:  func(state any) uint64 { return state.(*explanation).hash },
	}, place(events), timeout)
}

func place(events []*model.Event) []porcupine.Operation {
	operations := make([]porcupine.Operation, 0, len(events))
	for _, e := range events {
		add := func(optional bool) {
			operations = append(operations, porcupine.Operation{
				ClientId: e.Worker, Input: placed{e, optional}, Call: e.Call, Return: end(e),
			})
		}
		add(false)
		if e.Kind == model.Prune {
			for range besides(events, e) {
				add(true)
			}
		}
	}
	return operations
}

func (s *search) step(now *explanation, in placed) (bool, any) {
	var next model.Possible
	if in.optional {
		next = now.states.NextOptional(s.rules, in.Event)
	} else {
		next = now.states.Next(s.rules, in.Event)
	}
	if len(next) == 0 {
		if in.Event == s.suspect {
			s.refused(now)
		}
		return false, now
	}
	longer := &explanation{states: next, last: in, before: now, length: now.length + 1}
	for i := range next { // a sum, since the order of the states does not matter
		longer.hash += maphash.Comparable(s.seed, next[i])
	}
	if longer.length > s.longest.length {
		s.longest = longer
	}
	return true, longer
}

// refused keeps the states of the longest explanations that the suspect did not fit to.
func (s *search) refused(by *explanation) {
	if by.length > s.refusedAt {
		s.refusedAt, s.refusedIn = by.length, nil
	}
	if by.length == s.refusedAt && len(s.refusedIn) < statesShown {
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

// order lists an explanation's operations, first to last.
func (x *explanation) order() []placed {
	order := make([]placed, x.length)
	for ; x.length > 0; x = x.before {
		order[x.length-1] = x.last
	}
	return order
}

// firstUnexplained finds the answer to point at: up to any moment before it came, all answers have an explanation.
func (j *Judge) firstUnexplained(rules *model.Rules, g *group) *finding {
	var ends []int64
	for _, e := range g.events {
		if e.End() != 0 {
			ends = append(ends, e.End())
		}
	}
	slices.Sort(ends)
	if len(ends) == 0 {
		ends = append(ends, math.MaxInt64)
	}
	low, high := 0, len(ends)-1 // the cut at high has no explanation
	for low < high {
		middle := (low + high) / 2
		s := search{rules: rules}
		if result, _ := j.search(&s, g.key, cut(g.events, ends[middle])); result == porcupine.Illegal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	f := &finding{key: g.key, guilty: g.events[len(g.events)-1]}
	for _, e := range g.events {
		if e.End() == ends[high] {
			f.guilty = e
		}
	}
	s := search{rules: rules, suspect: f.guilty}
	if result, _ := j.search(&s, g.key, cut(g.events, ends[high])); result != porcupine.Unknown {
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

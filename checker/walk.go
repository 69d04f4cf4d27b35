package checker

import (
	"slices"

	"github.com/effectonce/effectonce/model"
)

// walker steps through the operations of one key that did not overlap. There is only one order then, so that
// walking decides exactly, and at once.
type walker struct {
	now, next model.Possible
	met       []met
	faults    []model.Fault
}

func (w *walker) key(rules *model.Rules, g *group, removed *removals, out *Judgement) *finding {
	w.now, w.met = append(w.now[:0], model.KeyState{}), w.met[:0]
	var effects generation
	for _, e := range g.events {
		w.next = w.now.NextInto(w.next, rules, e)
		if len(w.next) == 0 {
			countEffects(g, &out.Effects)
			removed.maybe(g)
			return &finding{key: g.key, guilty: e, moment: told(e), before: slices.Clone(w.now)}
		}
		if e.Kind == model.Prune {
			w.prune(rules, e)
		}
		w.came(rules, e, &effects, out)
	}
	effects.end(&out.Effects)
	removed.add(w.met)
	return nil
}

// along walks an order that explains the operations of one key.
func (w *walker) along(rules *model.Rules, order []*placed, out *Judgement) {
	w.now = append(w.now[:0], model.KeyState{})
	var effects generation
	for _, in := range order {
		if in.times > 0 {
			w.now = w.now.NextOptional(rules, in.Event)
			continue
		}
		w.next = w.now.NextInto(w.next, rules, in.Event)
		w.came(rules, in.Event, &effects, out)
	}
	effects.end(&out.Effects)
}

// came counts what an operation showed, and goes on from the states that it left.
func (w *walker) came(rules *model.Rules, e *model.Event, effects *generation, out *Judgement) {
	out.mark(rules.Reached(explaining(rules, w.now, e), e))
	out.met(e, state(w.now, e), w.faults)
	effects.met(e, w.next[0].Born, &out.Effects)
	w.now, w.next = w.next, w.now
}

// explaining is the first of the states that explains an answer: of several, what the operation met is one of these.
func explaining(rules *model.Rules, now model.Possible, e *model.Event) model.KeyState {
	if len(now) > 1 {
		var buffer [4]model.KeyState
		for _, s := range now {
			if len(rules.Step(buffer[:0], s, e)) > 0 {
				return s
			}
		}
	}
	return now[0]
}

func (out *Judgement) mark(m model.Marks) {
	if m == 0 {
		return
	}
	out.Marks |= m
	if m&model.TakenOver != 0 {
		out.Counts.Takeovers++
	}
	if m&(model.StalePresented|model.StaleAfterForgetting) != 0 {
		out.Counts.Stale++
	}
	if m&model.ByKeyMeanwhile != 0 {
		out.Counts.ByKey++
	}
	if m&model.ByKeyAccepted != 0 {
		out.Counts.ByKeyAccepted++
	}
}

// met says that a Prune met a record that it may have removed, or must have.
type met struct {
	prune *model.Event
	must  bool
}

func (w *walker) prune(rules *model.Rules, e *model.Event) {
	if !w.now.AllAbsent() && w.next.AnyAbsent() { // what was gone before by itself no prune has counted
		w.met = append(w.met, met{e, w.next.AllAbsent() && w.now.Remain(rules, e)})
	}
}

// removals bounds, per Prune, how many records it can have removed, over all keys.
type removals struct {
	prunes []*model.Event // in order
	of     []bounds
}

type bounds struct{ least, most int }

func newRemovals(prunes []*model.Event) *removals {
	return &removals{prunes, make([]bounds, len(prunes))}
}

func (r *removals) bounds(p *model.Event) *bounds {
	i, _ := slices.BinarySearchFunc(r.prunes, p.ID, func(q *model.Event, id int) int { return q.ID - id })
	return &r.of[i]
}

func (r *removals) add(all []met) {
	for _, m := range all {
		b := r.bounds(m.prune)
		b.most++
		if m.must {
			b.least++
		}
	}
}

// maybe counts a key of which no order is certain: each Prune may have removed its record, once for each completion
// that ran beside it and once more.
func (r *removals) maybe(g *group) {
	for _, p := range g.events {
		if p.Kind == model.Prune {
			r.bounds(p).most += 1 + besides(g.events, p)
		}
	}
}

// besides counts the completions of a key that were open together with a Prune.
func besides(events []*model.Event, p *model.Event) int {
	n := 0
	for _, e := range events {
		if completes(e.Kind) && overlap(e, p) {
			n++
		}
	}
	return n
}

func completes(k model.Kind) bool {
	switch k {
	case model.Complete, model.CompleteClaim, model.CommitEffect, model.CompleteResult, model.ApplyOnce, model.Deliver:
		return true
	}
	return false
}

// wrongCount finds the first of these prunes that told a count which nothing explains. A count is exact only if nothing was
// open beside the Prune, and only of a namespace that is the store's own. That nothing was removed is judged key by
// key already.
func (r *removals) wrongCount(rules *model.Rules, prunes []*model.Event) *finding {
	if rules.SharedNamespace || rules.Retention == model.ByItself || rules.Excuses(model.TypedAnswers) {
		return nil
	}
	for _, e := range prunes {
		if e.Return == 0 || e.Answer.Outcome != model.OK || !e.Alone || e.Answer.Count == 0 {
			continue
		}
		least, most := r.bounds(e).least, r.bounds(e).most
		if rules.PruneAtMost > 0 {
			most = min(most, rules.PruneAtMost)
			least = min(least, most)
		}
		if e.Answer.Count < least || e.Answer.Count > most {
			return &finding{guilty: e, moment: told(e), why: wrongCount(e.Answer.Count, least, most)}
		}
	}
	return nil
}

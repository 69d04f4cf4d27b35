package checker

import (
	"github.com/effectonce/effectonce/model"
)

// walker steps through the operations of one key that did not overlap. There is only one order then, so that
// walking decides exactly, and at once.
type walker struct {
	now, next model.Possible
}

func (w *walker) key(rules *model.Rules, g *group, removed *removals, out *Judgement) *finding {
	w.now = append(w.now[:0], model.KeyState{})
	var effects generation
	for _, e := range g.events {
		w.next = w.now.NextInto(w.next, rules, e)
		if len(w.next) == 0 {
			return &finding{key: g.key, guilty: e.ID, before: append(model.Possible(nil), w.now...)}
		}
		if e.Kind == model.Prune {
			removed.met(e, w.now, w.next)
		}
		out.mark(rules.Reached(w.now[0], e))
		effects.met(e, w.next[0].Born, &out.Effects)
		w.now, w.next = w.next, w.now
	}
	effects.end(&out.Effects)
	return nil
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
}

// removals bounds, per Prune, how many records it can have removed, over all keys.
type removals struct {
	of map[int]*bounds
}

type bounds struct{ least, most int }

func newRemovals(events []model.Event) *removals {
	r := &removals{}
	for i := range events {
		if events[i].Kind != model.Prune {
			continue
		}
		if r.of == nil {
			r.of = map[int]*bounds{}
		}
		r.of[events[i].ID] = &bounds{}
	}
	return r
}

// met counts one record that a Prune met in one of the states before, and left in one of those after.
func (r *removals) met(e *model.Event, before, after model.Possible) {
	b := r.of[e.ID]
	if before.AllAbsent() || !after.AnyAbsent() {
		return
	}
	b.most++
	if after.AllAbsent() && !before.AnyAbsent() {
		b.least++
	}
}

// maybe counts a key whose operations overlapped: each Prune may have removed its record, once for each completion
// that ran beside it and once more.
func (r *removals) maybe(g *group) {
	for _, p := range g.events {
		if p.Kind != model.Prune {
			continue
		}
		r.of[p.ID].most += 1 + besides(g, p)
	}
}

// besides counts the completions of a key that were open together with a Prune.
func besides(g *group, p *model.Event) int {
	n := 0
	for _, e := range g.events {
		if completes(e.Kind) && overlap(e, p) {
			n++
		}
	}
	return n
}

func completes(k model.Kind) bool {
	switch k {
	case model.Complete, model.CompleteClaim, model.CommitEffect, model.CompleteResult, model.ApplyOnce:
		return true
	}
	return false
}

func overlap(a, b *model.Event) bool {
	return (a.End() == 0 || a.End() > b.Call) && (b.End() == 0 || b.End() > a.Call)
}

// wrongCount finds the first Prune that told a count which nothing explains. A count is exact only if nothing was
// open beside the Prune, and only of a namespace that is the store's own. That nothing was removed is judged key by
// key already.
func (r *removals) wrongCount(rules *model.Rules, events []model.Event) *finding {
	if rules.SharedNamespace || rules.Retention == model.ByItself {
		return nil
	}
	for i := range events {
		e := &events[i]
		if e.Kind != model.Prune || e.Return == 0 || e.Answer.Outcome != model.OK || !e.Alone || e.Answer.Count == 0 {
			continue
		}
		least, most := r.of[e.ID].least, r.of[e.ID].most
		if rules.PruneAtMost > 0 {
			most = min(most, rules.PruneAtMost)
			least = min(least, most)
		}
		if e.Answer.Count < least || e.Answer.Count > most {
			return &finding{guilty: e.ID, why: wrongCount(e.Answer.Count, least, most)}
		}
	}
	return nil
}

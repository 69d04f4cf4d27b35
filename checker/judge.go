package checker

import (
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Judge judges histories one after the other and keeps its buffers between them. Its zero value is ready; it is
// not safe for concurrent use.
type Judge struct {
	// Timeout bounds porcupine's work on one key, and a few times as much bounds it on one history. Zero: 5s. A key
	// that takes longer is undecided.
	Timeout time.Duration
	// Porcupine has every key judged by porcupine, also one whose operations did not overlap, and both compared.
	Porcupine bool

	events []model.Event
	keys   map[model.Key]int
	groups []group
	prunes []*model.Event
	walk   walker
	budget budget
}

// Judgement is what one history shows. It is cheap where nothing is wrong; [Judge.Report] makes a report of it.
type Judgement struct {
	Verdict Verdict
	Limit   string
	Reason  *Reason
	Marks   model.Marks
	Counts  Counts
	Effects Effects
	// Met lists where faults met operations, where some order of them is known.
	Met []Place
}

// group is what happened to one key.
type group struct {
	key    model.Key
	events []*model.Event
	// overlaps: two operations were open at once.
	overlaps bool
	violated bool
}

// finding is the first thing that nothing explains.
type finding struct {
	key    model.Key // the zero key, for a count
	guilty *model.Event
	moment int64 // at which the history, so far explained, was explained no more
	before model.Possible
	why    string
}

// Judge judges a history. It panics if the history is none that a recorder could have written: see
// [model.History.Validate], which the caller of a foreign history asks first; [model.Parse] has.
func (j *Judge) Judge(h *model.History) Judgement {
	if err := h.Validate(); err != nil {
		panic(fmt.Sprintf("checker: judge: %v", err))
	}
	events := h.Events()
	j.walk.faults = h.Faults
	rules := model.NewRules(h.Contract)
	out := Judgement{Verdict: Pass}
	j.budget = newBudget(j.Timeout)
	j.group(events)
	found, limit := j.explain(rules, &out)
	j.events = events
	out.count(h, events, len(j.groups))
	defer func() { j.events = nil }()
	switch {
	case found != nil:
		out.Verdict = Violated
		out.Reason = j.reason(h, rules, found)
	case unbalanced(h, rules, events) != nil:
		out.Verdict = Violated
		out.Reason = unbalanced(h, rules, events)
	case late(rules, events) != nil:
		out.Verdict = Violated
		out.Reason = lateReason(h, late(rules, events), events)
	case limit != "":
		out.Verdict, out.Limit = Undecided, limit
	}
	return out
}

// Check judges one history and reports.
func Check(h *model.History) Report {
	var j Judge
	return j.Report(h, j.Judge(h))
}

// group sorts the events by key; a Prune concerns every key that was called before it ended.
func (j *Judge) group(events []model.Event) {
	if j.keys == nil {
		j.keys = map[model.Key]int{}
	}
	clear(j.keys)
	j.groups, j.prunes = j.groups[:0], j.prunes[:0]
	for i := range events {
		e := &events[i]
		if !e.Kind.Keyed() {
			j.prunes = append(j.prunes, e)
			for g := range j.groups {
				j.groups[g].add(e)
			}
			continue
		}
		g, known := j.keys[e.Key]
		if !known {
			g = j.open(e.Key)
			j.addOpenPrunes(g, e)
		}
		j.groups[g].add(e)
	}
}

func (j *Judge) open(key model.Key) int {
	g := len(j.groups)
	j.keys[key] = g
	if g < cap(j.groups) {
		j.groups = j.groups[:g+1]
		old := &j.groups[g]
		*old = group{key: key, events: old.events[:0]}
	} else {
		j.groups = append(j.groups, group{key: key})
	}
	return g
}

// addOpenPrunes adds the prunes that were still running when a key was first called: they may meet its record.
func (j *Judge) addOpenPrunes(g int, first *model.Event) {
	for _, p := range j.prunes {
		if overlap(p, first) {
			j.groups[g].add(p)
		}
	}
}

func (g *group) add(e *model.Event) {
	if n := len(g.events); n > 0 && overlap(g.events[n-1], e) {
		g.overlaps = true
	}
	g.events = append(g.events, e)
}

// overlap says whether two operations could have taken effect in either order. Moments that are equal say nothing.
func overlap(a, b *model.Event) bool { return end(a) >= b.Call && end(b) >= a.Call }

// explain looks for what nothing explains; limit says why a key could not be decided.
func (j *Judge) explain(rules *model.Rules, out *Judgement) (found *finding, limit string) {
	removed := newRemovals(j.prunes)
	for i := range j.groups {
		g := &j.groups[i]
		f, undecided := j.explainKey(rules, g, removed, out)
		if undecided != "" && limit == "" {
			limit = undecided
		}
		if g.violated = f != nil; g.violated {
			found = earlier(found, f)
		}
	}
	return earlier(found, removed.wrongCount(rules, j.prunes)), limit
}

// earlier is the finding to report of two: the one that came first.
func earlier(f, g *finding) *finding {
	if f == nil || g != nil && g.moment < f.moment {
		return g
	}
	return f
}

func (j *Judge) explainKey(rules *model.Rules, g *group, removed *removals, out *Judgement) (*finding, string) {
	if g.overlaps {
		out.Counts.Porcupine++
		removed.maybe(g)
		return j.linear(rules, g, out)
	}
	f := j.walk.key(rules, g, removed, out)
	if !j.Porcupine {
		return f, ""
	}
	out.Counts.Porcupine++
	p, limit := j.linear(rules, g, &Judgement{})
	switch {
	case limit != "":
		return nil, limit
	case (p == nil) != (f == nil), f != nil && p.guilty != f.guilty:
		return nil, fmt.Sprintf("the two checkers disagree on key %v: a defect of the kit, please report it with the history", g.key)
	}
	return f, ""
}

func (out *Judgement) count(h *model.History, events []model.Event, keys int) {
	out.Counts.Plans, out.Counts.Operations, out.Counts.Keys, out.Counts.Faults = 1, len(events), keys, len(h.Faults)
	for i := range events {
		e := &events[i]
		if e.Granted() {
			out.Counts.Claims++
		}
		if e.Return == 0 || e.Answer.Outcome == model.Unknown {
			out.Counts.Unknown++
		}
		if e.Unseen {
			out.Counts.Unseen++
		}
	}
}

// cut is a history as it stood at one moment: what had not been answered by then is pending, and what had not been
// closed is open. What explains the whole explains every cut of it.
func cut(events []*model.Event, moment int64) []*model.Event {
	kept := make([]*model.Event, 0, len(events))
	for _, e := range events {
		if e.Call > moment {
			break
		}
		if e.Return > moment || e.Closed > moment {
			o := *e.Operation
			if o.Closed = 0; o.Return > moment {
				o.Return, o.Answer, o.Applied, o.Unseen = 0, model.Answer{}, false, false
			}
			open := *e
			open.Operation = &o
			e = &open
		}
		kept = append(kept, e)
	}
	return kept
}

// told is when an operation's answer came, or its silence was final.
func told(e *model.Event) int64 {
	if e.Return != 0 {
		return e.Return
	}
	return end(e)
}

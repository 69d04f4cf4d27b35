package checker

import (
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Judge judges histories one after the other and keeps its buffers between them. Its zero value is ready; it is
// not safe for concurrent use.
type Judge struct {
	// Timeout bounds porcupine's work on one key. Zero: 5s. A key that takes longer is undecided.
	Timeout time.Duration
	// Porcupine has every key judged by porcupine, also one whose operations did not overlap, and both compared.
	Porcupine bool

	keys   map[model.Key]int
	groups []group
	prunes []*model.Event
	walk   walker
}

// Judgement is what one history shows. It is cheap where nothing is wrong; [Judge.Report] makes a report of it.
type Judgement struct {
	Verdict Verdict
	Limit   string
	Reason  *Reason
	Marks   model.Marks
	Counts  Counts
	Effects Effects
}

// group is what happened to one key.
type group struct {
	key    model.Key
	events []*model.Event
	// overlaps: two operations were open at once, or one never closed.
	overlaps bool
}

// finding is the first thing that nothing explains.
type finding struct {
	key    model.Key
	guilty int // the operation's ID
	before model.Possible
	why    string
}

const defaultTimeout = 5 * time.Second

// Judge judges a history. It panics if the history is none that a recorder could have written: see
// [model.History.Validate], which the caller of a foreign history asks first; [model.Parse] has.
func (j *Judge) Judge(h *model.History) Judgement {
	if err := h.Validate(); err != nil {
		panic(fmt.Sprintf("checker: judge: %v", err))
	}
	events := h.Events()
	rules := model.NewRules(h.Contract)
	var out Judgement
	out.Verdict = Pass
	j.group(events)
	found, limit := j.explain(rules, events, &out)
	out.count(h, events, len(j.groups))
	switch {
	case found != nil:
		out.Verdict = Violated
		out.Reason = j.reason(h, rules, events, found)
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
		if p.End() == 0 || p.End() > first.Call {
			j.groups[g].add(p)
		}
	}
}

func (g *group) add(e *model.Event) {
	if n := len(g.events); n > 0 {
		if end := g.events[n-1].End(); end == 0 || end > e.Call {
			g.overlaps = true
		}
	}
	if e.End() == 0 {
		g.overlaps = true
	}
	g.events = append(g.events, e)
}

// explain looks for what nothing explains; limit says why a key could not be decided.
func (j *Judge) explain(rules *model.Rules, events []model.Event, out *Judgement) (found *finding, limit string) {
	removed := newRemovals(events)
	for g := range j.groups {
		f, undecided := j.explainKey(rules, &j.groups[g], removed, out)
		if undecided != "" {
			limit = undecided
		}
		if f != nil && (found == nil || f.guilty < found.guilty) {
			found = f
		}
	}
	if f := removed.wrongCount(rules, events); f != nil && (found == nil || f.guilty < found.guilty) {
		found = f
	}
	return found, limit
}

func (j *Judge) explainKey(rules *model.Rules, g *group, removed *removals, out *Judgement) (*finding, string) {
	if g.overlaps {
		out.Counts.Porcupine++
		countEffects(g, &out.Effects)
		removed.maybe(g)
		return j.porcupine(rules, g)
	}
	f := j.walk.key(rules, g, removed, out)
	if !j.Porcupine {
		return f, ""
	}
	out.Counts.Porcupine++
	p, limit := j.porcupine(rules, g)
	if limit == "" && (p == nil) != (f == nil) {
		return nil, fmt.Sprintf("the two checkers disagree on key %v: a defect of the kit, please report it with the history", g.key)
	}
	return f, limit
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

package scenarios

import (
	"hash/maphash"
	"slices"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// tally is what many plans showed together.
type tally struct {
	seed     maphash.Seed
	distinct map[uint64]bool
	counts   checker.Counts
	effects  checker.Effects
	reached  map[model.Marks]int
	marks    map[string]int // marks of the recorder
	met      map[checker.Place]int
	bad      *failing
	odd      *failing // went wrong, and did not when it ran again
	named    []string // plans by name that passed
}

// failing is a plan that did not pass.
type failing struct {
	number    int
	plan      *Plan
	ran       *ran
	judgement checker.Judgement
	drawn     int // steps before it was reduced
}

func newTally() *tally {
	return &tally{seed: planSeed, distinct: map[uint64]bool{}, reached: map[model.Marks]int{}, marks: map[string]int{}, met: map[checker.Place]int{}}
}

// planSeed lets the lanes of one run agree on what is the same plan.
var planSeed = maphash.MakeSeed()

// count counts a drawn plan.
func (t *tally) count(p *Plan, h *model.History, j *checker.Judgement) {
	t.distinct[p.hash(t.seed)] = true
	t.reached[j.Marks]++
	for _, m := range h.Marks {
		t.marks[m.Name]++
	}
	t.happened(h, j)
}

// happened counts what one plan showed, whoever wrote it. That a plan by name came to a mark says nothing of the plans
// that are drawn, which the marks and their bounds are about.
func (t *tally) happened(h *model.History, j *checker.Judgement) {
	t.counts.Add(j.Counts)
	t.effects.Add(j.Effects)
	for _, p := range j.Met {
		t.met[p]++
	}
	for _, m := range h.Marks {
		if m.Name == overlapped {
			t.counts.Overlaps += m.Count
		}
	}
}

// hash tells plans apart by what happens in them; the keys carry the plan's number and do not count.
func (p *Plan) hash(seed maphash.Seed) uint64 {
	h := maphash.Comparable(seed, len(p.Zones))
	for i := range p.Steps {
		h = h*31 + maphash.Comparable(seed, p.Steps[i])
	}
	return h
}

func (t *tally) add(u *tally) {
	for h := range u.distinct {
		t.distinct[h] = true
	}
	t.counts.Add(u.counts)
	t.effects.Add(u.effects)
	for m, n := range u.reached {
		t.reached[m] += n
	}
	for p, n := range u.met {
		t.met[p] += n
	}
	for m, n := range u.marks {
		t.marks[m] += n
	}
	if u.bad != nil && (t.bad == nil || u.bad.number < t.bad.number) {
		t.bad = u.bad
	}
	if u.odd != nil && (t.odd == nil || u.odd.number < t.odd.number) {
		t.odd = u.odd
	}
}

// byMark counts the plans that came to each mark.
func (t *tally) byMark() map[string]int {
	plans := map[string]int{}
	for marks, n := range t.reached {
		for _, name := range marks.Names() {
			plans[name] += n
		}
	}
	for name, n := range t.marks {
		plans[name] += n
	}
	return plans
}

// required are the marks that the tiers which ran must have come to.
func (g *campaign) required() []string {
	var names []string
	tiers := g.c.tiers()
	if slices.Contains(tiers, Stepped) {
		names = append(names, g.planner.surface.required()...)
	}
	if slices.Contains(tiers, Real) {
		names = append(names, overlapped)
	}
	return names
}

func (t *tally) report(g *campaign) checker.Report {
	t.counts.Distinct = len(t.distinct)
	r := checker.Report{
		Schema: checker.Schema, Store: g.h.Name, Scenario: "default", Seed: g.c.seed, Verdict: checker.Pass,
		Counts: t.counts, Effects: t.effects, Reached: t.byMark(), Facts: g.h.Contract.Facts(),
	}
	r.Capabilities, r.Missing = g.h.door().names(&g.found)
	r.NotPromised, r.Waivers = g.notPromised(t.counts), checker.WaiversOf(g.h.Contract)
	r.Named, r.Missed, r.Coverage = t.named, g.missed(t), g.planner.surface.coverage(t.met)
	for _, mark := range g.required() {
		if r.Reached[mark] == 0 {
			continue
		}
		// A plan may be drawn twice: at most the distinct ones count as evidence.
		r.Bounds = append(r.Bounds, checker.BoundOf(mark, min(r.Reached[mark], len(t.distinct))))
	}
	if t.counts.Plans == 0 {
		r.Verdict = checker.Inconclusive
		r.Limit = "no plan ran in the time; raise Budget (EFFECTONCE_BUDGET)"
	}
	if len(r.Missed) > 0 {
		r.Verdict = checker.Inconclusive
		r.Limit = "too little happened: no plan came to " + quoteAll(r.Missed) + "; raise Plans or Budget (EFFECTONCE_PLANS, EFFECTONCE_BUDGET)"
	}
	return r
}

// reportOf is the report of a run with one plan that did not pass.
func (t *tally) reportOf(g *campaign, bad *failing) checker.Report {
	r := t.report(g)
	var judge checker.Judge
	of := judge.Report(bad.ran.history, bad.judgement)
	r.Verdict, r.Limit, r.Reasons, r.History = of.Verdict, of.Limit, of.Reasons, bad.ran.history.Print()
	r.Plan, r.Scenario = bad.plan.Print(), string(bad.plan.Tier)
	return r
}

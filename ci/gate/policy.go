package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// outcome is what is known of one report under the policy, or of all; its value is the exit code.
type outcome int

const (
	pass outcome = iota
	violated
	unusable
	undecided
	inconclusive
)

func (o outcome) String() string {
	return [...]string{"pass", "violated", "unusable", "undecided", "inconclusive"}[o]
}

// worse decides what the one exit code says where several would be true. A violation comes first, also before input
// that cannot be used: it is proved, and nothing that the missing report could say would take it back, while a script
// that repairs or retries on 2 would lose it. Unusable input comes next, since what it would have said is not known at
// all; then undecided, where a checker that gave up may have had a violation before it; inconclusive last. The
// summary tells all of them.
func worse(a, b outcome) outcome {
	weight := func(o outcome) int {
		return slices.Index([]outcome{pass, inconclusive, undecided, unusable, violated}, o)
	}
	if weight(b) > weight(a) {
		return b
	}
	return a
}

// twoPlans is the least that a campaign has. A forgotten EFFECTONCE_PLAN or EFFECTONCE_HISTORY makes a run of one plan,
// which owes no marks and may pass without having shown anything.
const twoPlans = 2

// policy is what reports are held to. Its zero value asks for no store and no number, and allows no waiver.
type policy struct {
	require  []string
	minPlans int
	allowed  []string // invariants that may be waived
	promised []string // invariants that must be
}

func (p *policy) validate() error {
	for _, name := range slices.Concat(p.allowed, p.promised) {
		known := slices.ContainsFunc(model.Invariants(), func(i model.Invariant) bool { return string(i.ID) == name })
		if !known {
			return fmt.Errorf("%q is no invariant", name)
		}
	}
	if p.minPlans < 0 {
		return fmt.Errorf("-min-plans %d is negative", p.minPlans)
	}
	return nil
}

// row is one report under the policy.
type row struct {
	path       string
	report     checker.Report
	waivers    []checker.Waiver
	outcome    outcome
	objections []string // what the policy has against it
}

// result is all that the summary tells.
type result struct {
	outcome  outcome
	rows     []row
	unusable []string // input that could not be used, and why
}

func (p *policy) judge(inputs []input) result {
	var all result
	for _, in := range inputs {
		if in.err != nil {
			all.unusable = append(all.unusable, in.path+": "+in.err.Error())
			continue
		}
		all.rows = append(all.rows, p.row(in))
	}
	for _, name := range p.require {
		if !slices.ContainsFunc(all.rows, func(r row) bool { return r.report.Store == name }) {
			all.unusable = append(all.unusable, fmt.Sprintf("store %q is required (-require) and has no report", name))
		}
	}
	for i := range all.rows {
		all.outcome = worse(all.outcome, all.rows[i].outcome)
	}
	if len(all.unusable) > 0 {
		all.outcome = worse(all.outcome, unusable)
	}
	return all
}

func (p *policy) row(in input) row {
	r := row{path: in.path, report: in.report, waivers: waivers(&in.report), outcome: outcomeOf(in.report.Verdict)}
	object := func(o outcome, format string, args ...any) {
		r.outcome = worse(r.outcome, o)
		r.objections = append(r.objections, fmt.Sprintf(format, args...))
	}
	// A waiver is the one thing by which a store's own author turns red into green, so it takes a second word, of whoever
	// keeps the gate.
	for _, w := range r.waivers {
		if !slices.Contains(p.allowed, string(w.Invariant)) {
			object(violated, "waives %s, which the policy does not allow (-allow-waiver)", w.Invariant)
		}
	}
	for _, c := range r.report.NotPromised {
		if slices.Contains(p.promised, string(c.Invariant)) {
			object(violated, "does not promise %s, which the policy demands (-promised): %s", c.Invariant, c.Why)
		}
	}
	if r.report.Verdict != checker.Pass {
		return r // how much happened before it failed is no objection
	}
	if counts := r.report.Counts; counts.Distinct < p.minPlans {
		object(inconclusive, "ran %d distinct plans, and the policy wants %d (-min-plans)", counts.Distinct, p.minPlans)
	} else if counts.Operations == 0 {
		object(inconclusive, "did nothing: it tells of no operation")
	}
	return r
}

// waivers are those that the report lists. One that lists them among what is not promised alone, with the reason
// behind a word, is from before they had a list of their own.
func waivers(r *checker.Report) []checker.Waiver {
	all := slices.Clone(r.Waivers)
	for _, c := range r.NotPromised {
		reason, waived := strings.CutPrefix(c.Why, "waived: ")
		if waived && !slices.ContainsFunc(all, func(w checker.Waiver) bool { return w.Invariant == c.Invariant }) {
			all = append(all, checker.Waiver{Invariant: c.Invariant, Reason: reason})
		}
	}
	return all
}

func outcomeOf(v checker.Verdict) outcome {
	switch v {
	case checker.Pass:
		return pass
	case checker.Violated:
		return violated
	case checker.Undecided:
		return undecided
	case checker.Inconclusive:
		return inconclusive
	}
	panic(fmt.Sprintf("gate: verdict %q got past plausible", v))
}

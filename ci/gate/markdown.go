package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// markdown is the summary: a verdict, a table, and then only what somebody has to act on.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# effectonce: %s\n\n%s\n", r.outcome, r.counted())
	if len(r.rows) > 0 {
		b.WriteString("\n")
		r.table(&b)
	}
	var problems []string
	for _, problem := range r.unusable {
		problems = append(problems, word(problem))
	}
	section(&b, "Input that cannot be used", problems)
	section(&b, "Against the policy", r.each(func(w *row) (lines []string) {
		for _, o := range w.objections {
			lines = append(lines, word(o))
		}
		return lines
	}))
	for i := range r.rows {
		r.rows[i].failure(&b)
	}
	section(&b, "Marks that no plan came to", r.each(func(w *row) (lines []string) {
		if w.report.Verdict == checker.Violated {
			return nil // it was cut short
		}
		for _, mark := range w.report.Missed {
			lines = append(lines, word(mark))
		}
		return lines
	}))
	section(&b, "Waivers", r.each(func(w *row) (lines []string) {
		for _, v := range w.waivers {
			until := "without an end"
			if !v.Until.IsZero() {
				until = "until " + v.Until.UTC().Format("2006-01-02 15:04 MST")
			}
			lines = append(lines, fmt.Sprintf("%s, %s: %s", word(string(v.Invariant)), until, word(v.Reason)))
		}
		return lines
	}))
	section(&b, "Not promised, and not judged", r.each(func(w *row) (lines []string) {
		var whys []string
		same := map[string][]string{}
		for _, c := range w.notPromised() {
			if same[c.Why] == nil {
				whys = append(whys, c.Why)
			}
			same[c.Why] = append(same[c.Why], string(c.Invariant))
		}
		for _, why := range whys {
			lines = append(lines, words(same[why])+": "+word(why))
		}
		return lines
	}))
	return b.String()
}

func (r *result) counted() string {
	var parts []string
	for o := pass; o <= inconclusive; o++ {
		n := len(r.unusable)
		if o != unusable {
			n = 0
			for i := range r.rows {
				if r.rows[i].outcome == o {
					n++
				}
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	reports := "reports"
	if len(r.rows) == 1 {
		reports = "report"
	}
	return fmt.Sprintf("%d %s read; %s. Exit code %d.", len(r.rows), reports, strings.Join(parts, ", "), r.outcome)
}

func (r *result) table(b *strings.Builder) {
	b.WriteString("| store | test | verdict | plans (distinct) | operations | takeovers | faults | effects 0 / 1 / 2+ | not promised | waivers | seed |\n")
	b.WriteString("|---|---|---|--:|--:|--:|--:|--:|---|---|--:|\n")
	for i := range r.rows {
		w := &r.rows[i]
		verdict := w.outcome.String()
		if w.outcome != pass {
			verdict = "**" + verdict + "**"
		}
		c, e := w.report.Counts, w.report.Effects
		var not, waived []string
		for _, cell := range w.notPromised() {
			not = append(not, string(cell.Invariant))
		}
		for _, v := range w.waivers {
			waived = append(waived, string(v.Invariant))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d (%d) | %d | %d | %d | %d / %d / %d | %s | %s | %s |\n",
			word(w.report.Store), word(w.report.Test), verdict, c.Plans, c.Distinct, c.Operations, c.Takeovers, c.Faults,
			e.None, e.Once, e.More, words(not), words(waived), strconv.FormatUint(w.report.Seed, 10))
	}
}

// notPromised are the cells that are no waiver, each invariant once.
func (w *row) notPromised() []checker.Cell {
	var cells []checker.Cell
	for _, c := range w.report.NotPromised {
		waived := slices.ContainsFunc(w.waivers, func(v checker.Waiver) bool { return v.Invariant == c.Invariant })
		told := slices.ContainsFunc(cells, func(d checker.Cell) bool { return d.Invariant == c.Invariant })
		if !waived && !told {
			cells = append(cells, c)
		}
	}
	return cells
}

// failure tells a report that did not pass by itself: what broke, and how to see it again.
func (w *row) failure(b *strings.Builder) {
	r := &w.report
	if r.Verdict == checker.Pass {
		return
	}
	fmt.Fprintf(b, "\n## %s%s: %s\n\n%s", strings.ToUpper(string(r.Verdict[:1])), r.Verdict[1:], w.name(), fenced(explained(*r)))
	fmt.Fprintf(b, "\nReport %s, seed %d", word(w.path), r.Seed)
	if r.Replay != "" {
		fmt.Fprintf(b, "; the plan failed %s times when it ran again", word(r.Replay))
	}
	b.WriteString(".\n")
	if r.Plan != "" {
		fmt.Fprintf(b, "\nThe plan; to run it again, put it in a file and name that in `EFFECTONCE_PLAN`:\n\n%s", fenced(r.Plan))
	}
}

// explained is Explain of a report that nobody vouches for: each text of a reason stays on its own line.
func explained(r checker.Report) string {
	r.Limit = visible(r.Limit)
	r.Reasons = slices.Clone(r.Reasons)
	for i := range r.Reasons {
		reason := &r.Reasons[i]
		reason.Invariant = model.InvariantID(visible(string(reason.Invariant)))
		for _, text := range []*string{&reason.Statement, &reason.Consumer, &reason.MessageID, &reason.Sentence, &reason.Wrong} {
			*text = visible(*text)
		}
	}
	return r.Explain()
}

func (w *row) name() string {
	if w.report.Test == "" {
		return word(w.report.Store)
	}
	return word(w.report.Store) + " in " + word(w.report.Test)
}

// each gathers lines of all rows, the row's name before each.
func (r *result) each(lines func(*row) []string) []string {
	var all []string
	for i := range r.rows {
		for _, line := range lines(&r.rows[i]) {
			all = append(all, r.rows[i].name()+": "+line)
		}
	}
	return all
}

func section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, line := range lines {
		b.WriteString("- " + line + "\n")
	}
}

func words(all []string) string {
	if len(all) == 0 {
		return "-"
	}
	spelt := make([]string, len(all))
	for i, s := range all {
		spelt[i] = word(s)
	}
	return strings.Join(spelt, ", ")
}

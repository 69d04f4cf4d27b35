package checker

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/model"
)

// Report makes a report of one judgement.
func (j *Judge) Report(h *model.History, of Judgement) Report {
	r := Report{
		Schema: Schema, Store: h.Store, Scenario: h.Scenario, Seed: h.Seed,
		Verdict: of.Verdict, Limit: of.Limit, Counts: of.Counts, Effects: of.Effects,
		Facts: h.Contract.Facts(), Reached: map[string]int{},
	}
	for _, name := range of.Marks.Names() {
		r.Reached[name] = 1
	}
	for _, c := range h.Capabilities {
		r.Capabilities = append(r.Capabilities, string(c))
	}
	for _, w := range h.Contract.Waivers {
		r.NotPromised = append(r.NotPromised, Cell{w.Invariant, "waived: " + w.Reason})
	}
	if of.Reason != nil {
		r.Reasons = []Reason{*of.Reason}
		r.History = h.Print()
	}
	return r
}

// Explain says in words what a report found, for the person who has to mend the store: the broken promise, the
// key, and the few operations that matter, with an arrow at the one that nothing explains.
func (r *Report) Explain() string {
	switch r.Verdict {
	case Pass:
		return "pass\n"
	case Undecided:
		return fmt.Sprintf("UNDECIDED (not a violation): %s\n", r.Limit)
	case Inconclusive:
		return fmt.Sprintf("INCONCLUSIVE (not a violation): %s\n", r.Limit)
	}
	h, err := model.Parse(r.History)
	if err != nil {
		panic(fmt.Sprintf("checker: explain: the report's own history does not parse: %v", err))
	}
	var b strings.Builder
	for i := range r.Reasons {
		r.Reasons[i].explain(&b, h)
	}
	return b.String()
}

func (r *Reason) explain(b *strings.Builder, h *model.History) {
	fmt.Fprintf(b, "broke %s - %s\n", r.Invariant, r.Statement)
	if r.MessageID != "" || r.Consumer != "" {
		fmt.Fprintf(b, "  key %v: ", model.Key{Consumer: r.Consumer, ID: r.MessageID})
	} else {
		b.WriteString("  ")
	}
	fmt.Fprintf(b, "%s\n\n", r.Sentence)
	lines := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	shown := keysShown(h, r.Operations)
	for _, id := range r.Operations {
		o := &h.Operations[id-1]
		for i := range h.Faults {
			if h.Faults[i].ID == o.Fault {
				fmt.Fprintf(lines, "   \t\tfault %s on w%d\t\t\t\n", h.Faults[i].Name, h.Faults[i].Worker)
			}
		}
		arrow := ""
		if id == r.Guilty {
			arrow = "<- nothing explains this"
		}
		fmt.Fprintf(lines, "   #%d\tw%d\t%s\t%s\t%s\t%s\n", id, o.Worker, invocation(h, o, shown > 1), answered(h, o), when(h, o), arrow)
	}
	lines.Flush()
	for _, e := range h.Effects {
		if e.Key == (model.Key{Consumer: r.Consumer, ID: r.MessageID}) {
			fmt.Fprintf(b, "   effect %q of %d on account %q was found\n", e.Effect.ID, e.Effect.Amount, e.Effect.Account)
		}
	}
}

func keysShown(h *model.History, ids []int) int {
	var keys []model.Key
	for _, id := range ids {
		if o := &h.Operations[id-1]; o.Kind.Keyed() && !slices.Contains(keys, o.Key) {
			keys = append(keys, o.Key)
		}
	}
	return len(keys)
}

// invocation is what was asked, short.
func invocation(h *model.History, o *model.Operation, withKey bool) string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	if withKey && o.Kind.Keyed() {
		fmt.Fprintf(&b, " %v", o.Key)
	}
	if o.Nonce != "" {
		fmt.Fprintf(&b, " nonce=%+q", o.Nonce)
	}
	if o.Kind.Fenced() {
		fmt.Fprintf(&b, " claim=#%d", o.Claim)
	}
	if o.Lease != 0 {
		fmt.Fprintf(&b, " lease=%v", o.Lease)
	}
	if o.Kind == model.Prune {
		fmt.Fprintf(&b, " before=%v", h.Offset(o.Before))
	}
	if o.Effect.ID != "" {
		fmt.Fprintf(&b, " effect=%+q", o.Effect.ID)
	}
	return b.String()
}

// answered is what came back, short.
func answered(h *model.History, o *model.Operation) string {
	answer := strings.TrimPrefix(h.PrintAnswer(o), "ok ")
	answer = strings.ReplaceAll(answer, `state="PROCESSING" `, "")
	return strings.ReplaceAll(answer, `"`, "")
}

func when(h *model.History, o *model.Operation) string {
	if o.Now == model.NoInstant {
		return fmt.Sprintf("[moment %d-%d]", o.Call, o.Return)
	}
	return "at " + h.Offset(o.Now).String()
}

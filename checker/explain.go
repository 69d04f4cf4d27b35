package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/model"
)

// Report makes a report of one judgement.
func (j *Judge) Report(h *model.History, of Judgement) Report {
	r := Report{
		Schema: Schema, Store: h.Store, Scenario: h.Scenario, Seed: h.Seed,
		Verdict: of.Verdict, Limit: of.Limit, Counts: of.Counts, Effects: of.Effects,
		Facts: h.Contract.Facts(), Reached: map[string]int{}, Waivers: WaiversOf(h.Contract),
	}
	for _, name := range of.Marks.Names() {
		r.Reached[name] = 1
	}
	for _, c := range h.Capabilities {
		r.Capabilities = append(r.Capabilities, string(c))
	}
	for _, w := range h.Contract.Waivers {
		r.NotPromised = append(r.NotPromised, Cell{Invariant: w.Invariant, Why: "waived: " + w.Reason})
	}
	if of.Reason != nil {
		r.Reasons = []Reason{*of.Reason}
		r.History = h.Print()
	}
	return r
}

// Explain says in words what a report found, for the person who has to mend the store: the broken promise, the
// key, and the few operations that matter, with an arrow at the one that nothing explains. What came from a message
// or a store is escaped.
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
	var b strings.Builder
	for i := range r.Reasons {
		r.Reasons[i].explain(&b)
		if err == nil {
			r.Reasons[i].show(&b, h)
		}
	}
	if err != nil { // a report from elsewhere
		fmt.Fprintf(&b, "\n   the report holds no history to show: %v\n", err)
	}
	return b.String()
}

func (r *Reason) explain(b *strings.Builder) {
	fmt.Fprintf(b, "broke %s - %s\n  ", r.Invariant, r.Statement)
	if r.MessageID != "" || r.Consumer != "" {
		fmt.Fprintf(b, `key "%s"/"%s": `, short(r.Consumer), short(r.MessageID))
	}
	fmt.Fprintf(b, "%s\n", r.Sentence)
}

func (r *Reason) show(b *strings.Builder, h *model.History) {
	var shown []*model.Operation
	for _, id := range r.Operations {
		if id >= 1 && id <= len(h.Operations) {
			shown = append(shown, &h.Operations[id-1])
		}
	}
	v := view{h: h, keys: manyKeys(shown), moments: manyAtOnce(shown)}
	b.WriteByte('\n')
	var table strings.Builder
	lines := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	faults := map[int]bool{}
	for _, o := range shown {
		if o.Fault > 0 && !faults[o.Fault] {
			faults[o.Fault] = true
			fmt.Fprint(lines, v.fault(&h.Faults[o.Fault-1]))
		}
		arrow := ""
		if o.ID == r.Guilty {
			arrow = "\t<- " + r.Wrong
		}
		fmt.Fprintf(lines, "   #%d\tw%d\t%s\t%s\t%s%s\n", o.ID, o.Worker, v.invocation(o), answered(h, o), v.when(o), arrow)
	}
	lines.Flush()
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if found := r.effects(h, shown); found != "" {
		fmt.Fprintf(b, "   effects found: %s\n", found)
	}
	if v.moments {
		b.WriteString("   [a b]: called and answered at these moments of one sequence; until c: it may have taken effect until then\n")
	}
}

// effects lists the effects that were found for the key, with the calls that wrote them.
func (r *Reason) effects(h *model.History, shown []*model.Operation) string {
	if h.LedgerRead == 0 || !slices.ContainsFunc(shown, func(o *model.Operation) bool { return o.Effect.ID != "" }) {
		return ""
	}
	var found []string
	for i := range h.Effects {
		id := h.Effects[i].Effect.ID
		if by := slices.IndexFunc(shown, func(o *model.Operation) bool { return o.Effect.ID == id }); by >= 0 {
			found = append(found, fmt.Sprintf("%s (#%d)", plain(quote(id)), shown[by].ID))
		}
	}
	if found == nil {
		return "none"
	}
	return strings.Join(found, ", ")
}

// view is how the operations of one explanation are shown.
type view struct {
	h       *model.History
	keys    bool // each with its key
	moments bool // each with its moments: some were open at once
}

func manyKeys(shown []*model.Operation) bool {
	first := model.Key{}
	return slices.ContainsFunc(shown, func(o *model.Operation) bool {
		if first == (model.Key{}) {
			first = o.Key
		}
		return o.Kind.Keyed() && o.Key != first
	})
}

func manyAtOnce(shown []*model.Operation) bool {
	last := int64(0)
	for _, o := range shown {
		if o.Call <= last {
			return true
		}
		last = max(last, end(&model.Event{Operation: o}))
	}
	return false
}

func (v *view) fault(f *model.Fault) string {
	whom, until := "every worker", "on"
	if f.Worker > 0 {
		whom = fmt.Sprintf("w%d", f.Worker)
	}
	if f.To != 0 {
		until = fmt.Sprintf("to %d", f.To)
	}
	what := plain(quote(f.Name)) + ", " + whom
	if f.Detail != "" {
		what += ": " + short(escaped(f.Detail))
	}
	return fmt.Sprintf("   \t\tfault %d: %s\t\tfrom moment %d %s\n", f.ID, what, f.From, until)
}

// invocation is what was asked, short.
func (v *view) invocation(o *model.Operation) string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	if v.keys && o.Kind.Keyed() {
		fmt.Fprintf(&b, " %v", o.Key)
	}
	if o.Nonce != "" {
		b.WriteString(" nonce=" + plain(quote(o.Nonce)))
	}
	if o.Kind.Fenced() && o.Claim > 0 {
		fmt.Fprintf(&b, " claim=#%d", o.Claim)
	}
	if o.Lease != 0 {
		fmt.Fprintf(&b, " lease=%v", o.Lease)
	}
	if o.Kind == model.Prune {
		fmt.Fprintf(&b, " before=%v", v.h.Offset(o.Before))
	}
	if o.Kind == model.Release {
		fmt.Fprintf(&b, " visible-at=%v", v.h.Offset(o.VisibleAt))
	}
	if o.Effect.ID != "" {
		b.WriteString(" effect=" + plain(quote(o.Effect.ID)))
	}
	return b.String()
}

// when is the instant that decides, and, where some were open at once, the moments of call and answer.
func (v *view) when(o *model.Operation) string {
	var parts []string
	switch {
	case o.CalledAt != model.NoInstant && o.ReturnedAt != model.NoInstant:
		parts = append(parts, fmt.Sprintf("[%v %v]", v.h.Offset(o.CalledAt), v.h.Offset(o.ReturnedAt)))
	case o.CalledAt != model.NoInstant:
		parts = append(parts, fmt.Sprintf("[%v -]", v.h.Offset(o.CalledAt)))
	case o.Now != model.NoInstant:
		parts = append(parts, "at "+v.h.Offset(o.Now).String())
	}
	if v.moments {
		answered, until := "-", ""
		if o.Return != 0 {
			answered = strconv.FormatInt(o.Return, 10)
		}
		switch {
		case o.Known():
		case o.Closed != 0:
			until = fmt.Sprintf(", until %d", o.Closed)
		default:
			until = ", until ever"
		}
		parts = append(parts, fmt.Sprintf("[%d %s]%s", o.Call, answered, until))
	}
	return strings.Join(parts, " ")
}

// answered is what came back, short.
func answered(h *model.History, o *model.Operation) string {
	answer := h.PrintAnswer(o)
	if o.Kind != model.Complete && (!o.Kind.Fenced() || o.Kind == model.Extend) { // there is more to an answer than ok
		answer = strings.TrimPrefix(answer, "ok ")
	}
	return plain(strings.Replace(answer, ` state="PROCESSING"`, "", 1))
}

func quote(s string) string { return strconv.QuoteToASCII(s) }

// escaped is quote without the quotes.
func escaped(s string) string { q := quote(s); return q[1 : len(q)-1] }

// plain takes the quotes from words that need none.
func plain(line string) string {
	var b strings.Builder
	for line != "" {
		before, rest, quoted := strings.Cut(line, `"`)
		b.WriteString(before)
		if !quoted {
			break
		}
		word, err := strconv.QuotedPrefix(`"` + rest)
		if err != nil {
			b.WriteString(`"` + rest)
			break
		}
		line = rest[len(word)-1:]
		if strings.ContainsFunc(word[1:len(word)-1], special) || word == `""` {
			b.WriteString(`"` + short(word[1:len(word)-1]) + `"`)
		} else {
			b.WriteString(short(word[1 : len(word)-1]))
		}
	}
	return b.String()
}

// short leaves out the middle of a text that is too long to read, such as a result of many bytes; the history has it
// whole. Two texts that differ at an end still do.
func short(s string) string {
	if len(s) <= 2*shownOfEnds+len("...(1000 more)...") {
		return s
	}
	return fmt.Sprintf("%s...(%d more)...%s", s[:shownOfEnds], len(s)-2*shownOfEnds, s[len(s)-shownOfEnds:])
}

const shownOfEnds = 60

func special(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_.:/", r)
}

package scenarios

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

func isZero(c model.Contract) bool { return reflect.ValueOf(c).IsZero() }

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// write leaves the report, its plan and its history in a folder of the test's own.
func write(r *checker.Report, dir, name string) error {
	if dir == "" {
		return nil
	}
	dir = filepath.Join(dir, folder(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("scenarios: write the report: %w", err)
	}
	files := map[string]string{"plan.txt": r.Plan, "history.txt": r.History}
	r.Files = []string{filepath.Join(dir, "report.json")}
	for file, text := range files {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("scenarios: write the report: %w", err)
		}
		r.Files = append(r.Files, path)
	}
	slices.Sort(r.Files)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("scenarios: write the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("scenarios: write the report: %w", err)
	}
	return nil
}

// failure is what a person reads: what broke, by which operations, and how to see it again.
func failure(r *checker.Report, test string, drawn bool) string {
	var b strings.Builder
	b.WriteString(r.Explain())
	fmt.Fprintf(&b, "\nstore %s, tier %s, seed %d, %d plans before it", r.Store, r.Scenario, r.Seed, max(0, r.Counts.Plans-1))
	if r.Replay != "" {
		fmt.Fprintf(&b, "; the plan below failed %s times when run again", r.Replay)
	}
	b.WriteByte('\n')
	if r.Plan != "" {
		if plan, err := ParsePlan(r.Plan); err == nil {
			fmt.Fprintf(&b, "run again:   EFFECTONCE_PLAN='%s' %s\n", plan.OneLine(), goTest(test))
		}
	}
	if drawn {
		fmt.Fprintf(&b, "same draw:   EFFECTONCE_SEED=%d %s\n", r.Seed, goTest(test))
	}
	for _, f := range r.Files {
		if filepath.Base(f) == "history.txt" {
			fmt.Fprintf(&b, "judge again: EFFECTONCE_HISTORY='%s' %s\n", f, goTest(test))
		}
	}
	if len(r.Files) > 0 {
		fmt.Fprintf(&b, "files:       %s\n", filepath.Dir(r.Files[0]))
	}
	return b.String()
}

// goTest is the command that runs this test alone, in the folder of its package.
func goTest(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return fmt.Sprintf("go test -run '%s' -count=1 .", strings.Join(parts, "/"))
}

// summary is what a passing test says: how much happened, what was judged, and what was not.
func summary(r *checker.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d plans (%d distinct), %d operations, %d claims, %d takeovers, %d stale calls, %d unseen replies, %d faults, %d overlapped pairs; effects %d once, %d more, %d none; seed %d\n",
		r.Store, r.Verdict, r.Counts.Plans, r.Counts.Distinct, r.Counts.Operations, r.Counts.Claims, r.Counts.Takeovers,
		r.Counts.Stale, r.Counts.Unseen, r.Counts.Faults, r.Counts.Overlaps, r.Effects.Once, r.Effects.More, r.Effects.None, r.Seed)
	fmt.Fprintf(&b, "  facts: %s; capabilities: %s; missing: %s\n", orNone(r.Facts), orNone(r.Capabilities), orNone(r.Missing))
	fmt.Fprintf(&b, "  by name: %s\n", orNone(r.Named))
	if r.Coverage != nil {
		b.WriteString(coverage(r.Coverage))
	}
	if r.Reached[quietTime] > 0 {
		b.WriteString("  the server's protocol is none that the gate knows: requests are told apart by who speaks, and a handshake is one\n")
	}
	for _, c := range r.NotPromised {
		measured := ""
		if c.Of > 0 {
			measured = fmt.Sprintf("; broken %d times of %d", c.Broken, c.Of)
		}
		fmt.Fprintf(&b, "  not promised: %s (%s%s)\n", c.Invariant, c.Why, measured)
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "  came to\tplans\tviolations at 95 %\n")
	for _, bound := range r.Bounds {
		fmt.Fprintf(w, "  %s\t%d\tbelow %.3f %%\n", bound.What, bound.Plans, 100*bound.Below)
	}
	w.Flush()
	return b.String()
}

// coverage is the table of operations and states, with how many of the faults each met.
func coverage(c *checker.Coverage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  fault coverage: %d %%, %d of %d places (operation, state, fault)", 100*c.Covered/max(c.Places, 1), c.Covered, c.Places)
	for _, p := range c.Missing {
		fmt.Fprintf(&b, "; not %s on %s, %s", p.Operation, cmp.Or(string(p.State), "absent"), p.Fault)
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	last := model.Kind("")
	for _, row := range c.Rows {
		if row.Operation != last {
			if last != "" {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "  \t%s", row.Operation)
			last = row.Operation
		}
		fmt.Fprintf(w, "\t%s %d/%d", cmp.Or(string(row.State), "absent"), row.Covered, row.Of)
	}
	fmt.Fprintln(w)
	w.Flush()
	return b.String()
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// folder makes a test's name fit for a path.
func folder(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

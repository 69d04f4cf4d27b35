package checker_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

var rewrite = flag.Bool("rewrite", false, "write the explanations of the golden histories again; verdict and reason stay as they were set by hand")

const separator = "----\n"

// golden is one history with the verdict that a person gave it: a first line "# violated Invariant", or "# pass,
// though it looks like Invariant" where a naive reading of that promise would accuse; lines that say why; the history;
// a separator; and what Explain makes of it.
type golden struct {
	name, file    string
	verdict       checker.Verdict
	invariant     model.InvariantID // broken
	looksLike     model.InvariantID
	head          string // the comment, as it stands
	history, want string
}

func goldens(t *testing.T) []golden { t.Helper(); return goldensOf(t) }

func goldensOf(t testing.TB) []golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden histories: %v", err)
	}
	var all []golden
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g := golden{file: file, name: strings.TrimSuffix(filepath.Base(file), ".txt")}
		rest := string(text)
		for strings.HasPrefix(rest, "#") {
			line, after, _ := strings.Cut(rest, "\n")
			g.head += line + "\n"
			rest = after
		}
		var found bool
		if g.history, g.want, found = strings.Cut(rest, separator); !found {
			t.Fatalf("%s: no line %q", file, strings.TrimSpace(separator))
		}
		words := strings.Fields(strings.SplitN(g.head, "\n", 2)[0])
		last := model.InvariantID(words[len(words)-1])
		if g.verdict = checker.Verdict(strings.TrimSuffix(words[1], ",")); g.verdict == checker.Violated {
			g.invariant = last
		} else {
			g.looksLike = last
		}
		all = append(all, g)
	}
	return all
}

func (g golden) parse(t *testing.T) *model.History {
	t.Helper()
	h, err := model.Parse(g.history)
	if err != nil {
		t.Fatalf("%s: %v", g.file, err)
	}
	return h
}

func TestGoldenHistories(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			h := g.parse(t)
			r := checker.Check(h)
			explained := r.Explain()
			var is model.InvariantID
			if len(r.Reasons) > 0 {
				is = r.Reasons[0].Invariant
			}
			if r.Verdict != g.verdict || is != g.invariant {
				t.Fatalf("judged %s %s, want %s %s\n%s%s", r.Verdict, is, g.verdict, g.invariant, g.head, explained)
			}
			if *rewrite {
				if err := os.WriteFile(g.file, []byte(g.head+g.history+separator+explained), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if explained != g.want {
				t.Errorf("explained as\n%s\nwant\n%s\n(go test ./checker -run Golden -rewrite)", explained, g.want)
			}
		})
	}
}

func TestEveryReasonHasAWrongHistoryAndARightOneThatLooksLikeIt(t *testing.T) {
	wrong, right := map[model.InvariantID]int{}, map[model.InvariantID]int{}
	for _, g := range goldens(t) {
		wrong[g.invariant]++
		right[g.looksLike]++
		if named := g.invariant + g.looksLike; named.Statement() == "" {
			t.Errorf("%s: %q is no promise", g.file, named)
		}
	}
	for _, id := range append(checker.AllReasons(), model.EveryCallReturns) {
		if wrong[id] == 0 || right[id] == 0 {
			t.Errorf("%s: %d wrong histories, %d right ones that look like it", id, wrong[id], right[id])
		}
	}
}

package scenarios_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

func TestTheReadmeListsTheSettingsThatThereAre(t *testing.T) {
	readme := readFile(t, "../README.md")
	want := []string{backend.EnvBackend, backend.EnvRequire, backend.EnvPostgresDSN, backend.EnvRedisURL}
	for _, s := range scenarios.Settings() {
		want = append(want, "EFFECTONCE_"+s.Name)
	}
	same(t, "settings", rows(readme, "variable"), want)
	for _, name := range regexp.MustCompile(`EFFECTONCE_[A-Z_]*[A-Z]`).FindAllString(readme, -1) {
		if !slices.Contains(want, name) {
			t.Errorf("the README speaks of %s, which is no setting", name)
		}
	}
	options, found := betweenWords(readme, "is an error. ", " are options of the call too")
	if !found {
		t.Fatal("the README does not say which settings are options too")
	}
	same(t, "options", regexp.MustCompile("[A-Z][a-z]+").FindAllString(options, -1), optionsThereAre(t))
}

func TestTheReadmeListsTheInvariantsAndTheFacts(t *testing.T) {
	readme := readFile(t, "../README.md")
	var invariants []string
	for _, inv := range model.Invariants() {
		invariants = append(invariants, string(inv.ID))
	}
	same(t, "invariants", rows(readme, "invariant"), invariants)
	carriers := map[string][]model.Kind{
		"claim": {model.Begin}, "claim, delivery": {model.Begin, model.Deliver}, "prune": {model.Prune},
		"claim presented": {model.CompleteClaim, model.CommitEffect, model.CompleteResult, model.Release, model.Extend, model.Bury},
		"effect":          {model.CommitEffect, model.ApplyOnce, model.Deliver},
		"any":             {model.Begin, model.ApplyOnce, model.Deliver},
	}
	for _, inv := range model.Invariants() {
		line := regexp.MustCompile(`(?m)^\| ` + string(inv.ID) + ` \| .* \| (.*) \|$`).FindStringSubmatch(readme)
		if line == nil || !slices.Equal(carriers[line[1]], inv.Kinds) {
			t.Errorf("the README says otherwise than %v of what carries %s: %q", inv.Kinds, inv.ID, line)
		}
	}
	var fields []string
	for f := range reflect.TypeFor[model.Contract]().Fields() {
		if f.IsExported() {
			fields = append(fields, f.Name)
		}
	}
	same(t, "fields of the contract", rows(readme, "field"), fields)
}

func TestTheReadmesCommandsAndFoldersAreThere(t *testing.T) {
	readme := readFile(t, "../README.md")
	commands := regexp.MustCompile(`(?m)^    ((?:go|bash) .*)$`).FindAllStringSubmatch(readme, -1)
	if len(commands) != 2 {
		t.Errorf("%d commands, want the two of the first page: %q", len(commands), commands)
	}
	script := readFile(t, "../.ci/run")
	for _, c := range commands {
		words := strings.Fields(c[1])
		switch {
		case words[0] == "bash":
			if info, err := os.Stat(filepath.Join("..", words[1])); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s: not a script that runs (%v)", c[1], err)
			}
		case !strings.Contains(script, c[1]+"\n"):
			t.Errorf("%s: the script does not run it", c[1])
		}
	}
	named := rows(readme, "folder")
	for _, folder := range named {
		if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
			t.Errorf("the README speaks of a folder %s, which is not there", folder)
		}
	}
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if room := filepath.Base(filepath.Dir(f)); !slices.Contains(named, room) {
			t.Errorf("the README leaves out the folder %s", room)
		}
	}
}

// TestTheReadmesFailureIsReal runs the plan that the README prints on the liar that it speaks of.
func TestTheReadmesFailureIsReal(t *testing.T) {
	readme := readFile(t, "../README.md")
	plan, found := betweenWords(printed(readme, "run again:"), "EFFECTONCE_PLAN='", "'")
	if !found {
		t.Fatal("the README prints no plan to run again")
	}
	t.Setenv("EFFECTONCE_PLAN", plan)
	r := explore(t, brokenMemory(broken.LateOwnerAccepted))
	if told := r.Explain(); !strings.Contains(readme, told+"\n") {
		t.Errorf("the README tells otherwise than what its plan comes to:\n%s", told)
	}
}

// rows are the words in the first column of the tables whose first heading is the given one.
func rows(markdown, heading string) []string {
	var all []string
	for _, table := range strings.Split(markdown, "\n| "+heading+" |")[1:] {
		body, _, _ := strings.Cut(table, "\n\n")
		for _, line := range strings.Split(body, "\n")[2:] {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			all = append(all, strings.Split(strings.ReplaceAll(first, "`", ""), ", ")...)
		}
	}
	return all
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the README's %s:\n%q\nthere are:\n%q", what, got, want)
	}
}

func betweenWords(text, begin, end string) (string, bool) {
	_, after, found := strings.Cut(text, begin)
	between, _, ends := strings.Cut(after, end)
	return between, found && ends
}

// optionsThereAre are the functions of this package that make an Option.
func optionsThereAre(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			if made, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && made.Name == "Option" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

// printed is what stands behind a label, on its line.
func printed(out, label string) string {
	_, after, found := strings.Cut(out, label)
	if !found {
		return ""
	}
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

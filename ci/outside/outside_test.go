package outside_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests of this file use the kit from outside in ways that the README's first example does not: from a copied
// folder, and from a program that is no test.

const template = "../../adapters/template"

func TestTheTemplatePassesAsItIsCopiedAndFailsAfterTheEditThatItDescribes(t *testing.T) {
	s := copied(t)
	if out, err := s.run("go test -count=1 -v ."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if !strings.Contains(out, "template: pass, ") {
		t.Errorf("no summary tells that it passed:\n%s", out)
	}
	store := readFile(t, filepath.Join(s.dir, "store.go"))
	described := regexp.MustCompile(`(?m)^(\t.*)\n\t// TO SEE IT FAIL, with ([A-Za-z]+), put this in the place of the line above: (.*)$`)
	edits := described.FindAllStringSubmatch(store, -1)
	if len(edits) != 1 {
		t.Fatalf("the template describes %d edits, want one:\n%s", len(edits), store)
	}
	line, invariant, instead := edits[0][1], edits[0][2], edits[0][3]
	s.edit("store.go", line+"\n", "\t"+instead+"\n")
	out, err := s.run("go test -count=1 .")
	if err == nil {
		t.Fatalf("%s instead of %s passed:\n%s", instead, line, out)
	}
	if !strings.Contains(out, "broke "+invariant+" - ") {
		t.Errorf("%s instead of %s did not fail with %s:\n%s", instead, line, invariant, out)
	}
}

// copied is the template in a module of its own, under another package's name.
func copied(t *testing.T) *stranger {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(template + "/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %q, %v", template, names, err)
	}
	for _, name := range names {
		text := readFile(t, name)
		if strings.Count(text, "\npackage template\n") != 1 && !strings.HasPrefix(text, "package template\n") {
			t.Fatalf("%s names its package otherwise than by one line", name)
		}
		files[filepath.Base(name)] = strings.Replace(text, "package template\n", "package shop\n", 1)
	}
	return newModule(t, files)
}

func TestAPlainProgramEndsByItsVerdict(t *testing.T) {
	s := newModule(t, map[string]string{
		"dedup.go":           readFile(t, "testdata/stranger/dedup.go"),
		"cmd/verify/main.go": readFile(t, "testdata/plain/main.go"),
	})
	s.mustBuild("go build -o gate github.com/effectonce/effectonce/ci/gate")
	s.mustBuild("go build -o verify ./cmd/verify")
	s.ends("./verify", 0, "dedup: pass, ")
	s.ends("EFFECTONCE_PLANS=1 EFFECTONCE_OUT=few ./verify", 4, "dedup: inconclusive, ", "too little happened")
	s.ends("EFFECTONCE_SEED=first ./verify", 2, `EFFECTONCE_SEED is "first"`)
	s.ends("EFFECTONCE_OUT=runs ./verify", 0, "dedup: pass, ")
	s.ends("./gate -require dedup -min-plans 100 runs", 0, "| `dedup` | - | pass |")
	s.ends("./gate -require dedup few", 4, "| `dedup` | - | **inconclusive** |")

	s.makeWrong()
	s.mustBuild("go build -o verify ./cmd/verify")
	s.ends("EFFECTONCE_OUT=wrong ./verify", 1, "dedup: violated, ", "broke DoneStaysDone - ")
	s.ends("./gate -require dedup wrong runs", 1, "| `dedup` | - | **violated** |", "broke DoneStaysDone - ")
}

func (s *stranger) mustBuild(command string) {
	s.t.Helper()
	if out, err := s.within(compileAtMost, command); err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// ends runs a command and expects its exit code and what it prints.
func (s *stranger) ends(command string, code int, says ...string) {
	s.t.Helper()
	out, err := s.run(command)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != code {
		s.t.Errorf("%s: exit code %d, want %d\n%s", command, got, code, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			s.t.Errorf("%s does not say %q:\n%s", command, text, out)
		}
	}
}

package outside_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// The tests of this file are a user's first hour: the README's files in a module of their own, beside a store that
// knows nothing of this kit (testdata/stranger).

// compileAtMost bounds what the machine needs, strangerAtMost what the kit does in a stranger's module.
const (
	compileAtMost  = 5 * time.Minute
	strangerAtMost = time.Minute
)

func TestAStrangerPlugsInAStoreAnInboxAndAConsumer(t *testing.T) {
	s := newStranger(t, "dedup.go", "dedup_test.go", "shop.go", "shop_test.go")
	out, err := s.run("go test -count=1 -v .")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"dedup", "inbox", "shop"} {
		if !strings.Contains(out, name+": pass, ") {
			t.Errorf("no summary tells that the %s passed:\n%s", name, out)
		}
	}
}

func TestAStrangerPlugsInAPostgresStore(t *testing.T) {
	postgres := postgresServer.Need(t)
	s := newStranger(t, "dedup.go", "postgres.go", "postgres_test.go")
	// A quarter of the plans: that the example works is the question here, not the store.
	s.env = append(s.env, "DEDUP_DSN="+postgres.DSN(), "EFFECTONCE_PLANS=100")
	if out, err := s.run("go test -count=1 -v ."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if !strings.Contains(out, "dedup on postgres: pass, ") || !strings.Contains(out, "capabilities: EffectCommitter") {
		t.Errorf("no summary tells that its effects were judged:\n%s", out)
	}
}

func TestAStrangersWrongStoreFailsAgainByThePrintedCommands(t *testing.T) {
	s := wrongStranger(t)
	s.failsAlike("run again:")
	s.failsAlike("judge again:")
}

// go test shows a result that it kept, unless the test asked by name for a variable that is another one now.
func TestAKeptResultIsNotShownForAnotherSetting(t *testing.T) {
	s := newStranger(t, "dedup.go", "dedup_test.go")
	s.write("kept_test.go", `package dedup

import (
	"testing"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

func TestKept(t *testing.T) { // whatever the verdict: of one plan that is little, and only what passes is kept
	h := scenarios.Harness{Name: "dedup", Open: scenarios.Shared(func() model.Store {
		return adapters.From(New(), record)
	})}
	if _, err := scenarios.Explore(t.Context(), h, scenarios.Plans(1)); err != nil {
		t.Fatal(err)
	}
}
`)
	s.env = append(s.env, "EFFECTONCE_BUDGET=1s")
	for _, c := range []struct {
		setting string
		kept    bool
	}{
		{"EFFECTONCE_SEED=1", false},
		{"EFFECTONCE_SEED=1", true}, // or the others prove nothing
		{"EFFECTONCE_SEED=2", false},
		{"EFFECTONCE_SEED=1 EFFECTONCE_PLANS=2", false},
		{"EFFECTONCE_SEED=1", true},
	} {
		out, err := s.run(c.setting + " go test -run '^TestKept$' .")
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.setting, err, out)
		}
		if kept := strings.Contains(out, "(cached)"); kept != c.kept {
			t.Errorf("%s: kept %v, want %v:\n%s", c.setting, kept, c.kept, out)
		}
	}
}

// stranger is a module of its own in a temporary folder.
type stranger struct {
	t   *testing.T
	dir string
	env []string
}

// newStranger makes a module of the README's test files and of the stranger's own store.
func newStranger(t *testing.T, names ...string) *stranger {
	t.Helper()
	blocks, files := readmeFiles(t), map[string]string{}
	for _, name := range names {
		if text, shown := blocks[name]; shown {
			files[name] = text
		} else {
			files[name] = readFile(t, "testdata/stranger/"+name)
		}
	}
	return newModule(t, files)
}

// newModule makes a module of the README's go.mod and of these files, and vets it.
func newModule(t *testing.T, files map[string]string) *stranger {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this compiles a module of its own")
	}
	t.Parallel()
	s := &stranger{t: t, dir: t.TempDir()}
	s.env = strangersEnv(t)
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	blocks := readmeFiles(t)
	const here = "=> ../effectonce"
	if !strings.Contains(blocks["go.mod"], here) {
		t.Fatalf("the README's go.mod has no %q:\n%s", here, blocks["go.mod"])
	}
	s.write("go.mod", strings.Replace(blocks["go.mod"], here, "=> "+repository, 1))
	s.write("go.sum", readFile(t, "../../go.sum"))
	for name, text := range files {
		s.write(name, text)
	}
	for _, command := range []string{"go vet ./...", "go test -count=1 -run '^$' ."} { // the second one compiles
		if out, err := s.within(compileAtMost, command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return s
}

// wrongStranger has the README's one edit made.
func wrongStranger(t *testing.T) *stranger {
	t.Helper()
	s := newStranger(t, "dedup.go", "dedup_test.go")
	s.makeWrong()
	return s
}

// makeWrong lets Complete delete the record, as the README says.
func (s *stranger) makeWrong() {
	s.t.Helper()
	const right, wrong = `s.records[k] = Record{"DONE", s.records[k].Attempts, time.Time{}, now}`, `delete(s.records, k)`
	s.edit("dedup.go", right, wrong)
}

// edit replaces what stands in a file exactly once.
func (s *stranger) edit(name, before, after string) {
	s.t.Helper()
	text := readFile(s.t, filepath.Join(s.dir, name))
	if strings.Count(text, before) != 1 {
		s.t.Fatalf("%s does not hold exactly one %s", name, before)
	}
	s.write(name, strings.Replace(text, before, after, 1))
}

// failsAlike runs the test, then the command that it prints behind a label, and expects one failure twice.
func (s *stranger) failsAlike(label string) {
	s.t.Helper()
	first, err := s.run("go test -count=1 .")
	if err == nil {
		s.t.Fatalf("a store whose Complete deletes the record passed:\n%s", first)
	}
	command := printed(first, label)
	if command == "" {
		if label == "judge again:" {
			s.t.Skip("no command to judge again is printed")
		}
		s.t.Fatalf("nothing is printed behind %q:\n%s", label, first)
	}
	again, err := s.run(command)
	if err == nil {
		s.t.Fatalf("%s\npassed:\n%s", command, again)
	}
	want, got := explanation(first), explanation(again)
	if !strings.HasPrefix(want, "broke DoneStaysDone") {
		s.t.Errorf("the reason is not that DONE was forgotten:\n%s", first)
	}
	if got != want {
		s.t.Errorf("%s\nfailed otherwise:\n%s\nthan at first:\n%s", command, again, first)
	}
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

// explanation is the part of a failure that does not depend on the run: from the reason to the operations.
func explanation(out string) string {
	found := regexp.MustCompile(`(?s)broke .*?\n\s*\n.*?\n\s*\n`).FindString(out)
	return strings.TrimSpace(found)
}

func (s *stranger) run(command string) (string, error) { return s.within(strangerAtMost, command) }

func (s *stranger) within(bound time.Duration, command string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.WaitDelay = 5 * time.Second // go test's own children hold the pipe
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		s.t.Fatalf("%s did not end within %v:\n%s", command, bound, out)
	}
	return string(out), err
}

func (s *stranger) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// strangersEnv is this test's environment without its settings. It keeps the module proxy: a module that requires this
// one asks for go.mod files that this one's own build never needed, and a fresh machine has them not yet. The race
// detector is on where it is on here: what is compiled already is not compiled again.
func strangersEnv(t *testing.T) []string {
	flags := "GOFLAGS=-mod=mod"
	if info, known := debug.ReadBuildInfo(); known {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				flags += " -race"
			}
		}
	}
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "EFFECTONCE_") {
			env = append(env, entry)
		}
	}
	return append(env, flags, "GOSUMDB=off", "GOWORK=off", "TMPDIR="+t.TempDir())
}

// readmeFiles are the README's code blocks that are files: the one marked go.mod, and Go files that begin with their
// name in a comment.
func readmeFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	text := readFile(t, "../../README.md")
	for _, block := range regexp.MustCompile("(?s)\n```([a-z.]+)\n(.*?\n)```\n").FindAllStringSubmatch(text, -1) {
		name, body := block[1], block[2]
		if name == "go" {
			first, rest, _ := strings.Cut(body, "\n")
			name, body = strings.TrimPrefix(first, "// "), rest
		}
		files[name] = body
	}
	for _, name := range []string{"go.mod", "dedup_test.go", "postgres_test.go"} {
		if files[name] == "" {
			t.Fatalf("the README shows no file %s", name)
		}
	}
	return files
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

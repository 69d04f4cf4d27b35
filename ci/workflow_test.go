package ci_test

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/scenarios"
)

const workflow = ".github/workflows/verify.yml"

// A workflow runs where nobody looks until it fails. Here its commands are held to what the repository has.
func TestTheWorkflowsCommandsAreThere(t *testing.T) {
	text := readText(t, workflow)
	commands := regexp.MustCompile(`(?m)^ +run: (.*)$`).FindAllStringSubmatch(text, -1)
	kinds := map[string]int{}
	for _, c := range commands {
		line := c[1]
		switch words := strings.Fields(line); {
		case strings.HasPrefix(line, "go run ./ci/gate "):
			kinds["gate"]++
		case strings.HasPrefix(line, "go test "):
			kinds["test"]++
			if info, err := os.Stat(filepath.Join(root, words[2])); err != nil || !info.IsDir() {
				t.Errorf("%s: no such package (%v)", line, err)
			}
			testsMatch(t, line, words[2])
		case words[0] == "bash":
			kinds["script"]++
			if info, err := os.Stat(filepath.Join(root, words[1])); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s: not a script that runs (%v)", line, err)
			}
		case words[0] != "sudo":
			t.Errorf("%s: a command that this test does not know", line)
		}
	}
	if kinds["gate"] != 1 || kinds["test"] != 1 || kinds["script"] != 1 {
		t.Errorf("the workflow runs %v, want the suite, the gate and the script", kinds)
	}
	if strings.Contains(text, "run: |") {
		t.Error("a command over several lines is not looked into: put it into a script")
	}
}

func TestTheWorkflowAsksTheGateForTheServersThatItRequires(t *testing.T) {
	text := readText(t, workflow)
	required := regexp.MustCompile(`EFFECTONCE_REQUIRE: (\S+)`).FindAllStringSubmatch(text, -1)
	asked := regexp.MustCompile(`-require (\S+)`).FindStringSubmatch(text)
	if len(required) == 0 || asked == nil {
		t.Fatal("the workflow requires no server, or asks the gate for no store")
	}
	stores := strings.Split(asked[1], ",")
	for _, r := range required {
		for name := range strings.SplitSeq(r[1], ",") {
			if !slices.Contains(stores, name) {
				t.Errorf("the server %s is required, and the gate is not asked for its report", name)
			}
		}
	}
	known := []string{backend.EnvBackend, backend.EnvRequire, backend.EnvPostgresDSN, backend.EnvRedisURL}
	for _, s := range scenarios.Settings() {
		known = append(known, "EFFECTONCE_"+s.Name)
	}
	for _, name := range regexp.MustCompile(`EFFECTONCE_[A-Z_]+`).FindAllString(text, -1) {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no setting", name)
		}
	}
}

func TestTheWorkflowKeepsWhatTheSuiteLeft(t *testing.T) {
	text := readText(t, workflow)
	out := regexp.MustCompile(`EFFECTONCE_OUT: (.+)`).FindStringSubmatch(text)
	if out == nil || !strings.Contains(text, "path: "+out[1]+"\n") || !strings.Contains(text, `"$EFFECTONCE_OUT"`) {
		t.Errorf("the suite writes to %q; the gate and the artifact must be of that folder", out)
	}
	for _, step := range []string{"name: gate\n        if: always()", "name: keep the run\n        if: always()\n        uses: actions/upload-artifact@"} {
		if !strings.Contains(text, step) {
			t.Errorf("a suite that failed skips a step: want\n%s", step)
		}
	}
	if !strings.Contains(text, `-o "$GITHUB_STEP_SUMMARY"`) {
		t.Error("the summary does not get to the page of the run")
	}
	for _, u := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`^actions/[a-z-]+@v[0-9]+$`).MatchString(u[1]) {
			t.Errorf("%s is not pinned to a major version", u[1])
		}
	}
}

func TestTheGateIsAskedAsItCanBeAsked(t *testing.T) {
	for name, least := range map[string]int{workflow: 1, ".ci/run": 1, "ci/gate/main.go": 1, "README.md": 0} {
		lines := regexp.MustCompile(`(?m)^.*/gate -.*$`).FindAllString(readText(t, name), -1)
		if len(lines) < least {
			t.Errorf("%s runs the gate in %d lines, want %d", name, len(lines), least)
		}
		for _, line := range lines {
			knownFlags(t, line)
		}
	}
}

// knownFlags holds a command line to the flags that the gate's usage lists.
func knownFlags(t *testing.T, line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./ci/gate", "-h")
	cmd.Dir = root
	usage, _ := cmd.CombinedOutput() // it exits with 2
	var known []string
	for _, f := range regexp.MustCompile(`(?m)^  (-\S+)`).FindAllStringSubmatch(string(usage), -1) {
		known = append(known, f[1])
	}
	_, args, _ := strings.Cut(line, "/gate")
	used := regexp.MustCompile(` (-[a-z-]+)`).FindAllStringSubmatch(args, -1)
	if len(known) == 0 || len(used) == 0 {
		t.Fatalf("the gate tells of the flags %q, the line has %q: %s\n%s", known, used, line, usage)
	}
	for _, f := range used {
		if !slices.Contains(known, f[1]) {
			t.Errorf("%s: the gate has no flag %s, only %q", line, f[1], known)
		}
	}
}

// testsMatch expects each alternative of a -run to be a test of the package.
func testsMatch(t *testing.T, line, dir string) {
	t.Helper()
	pattern := regexp.MustCompile(`-run '\^Test\(([A-Za-z|]+)\)\$'`).FindStringSubmatch(line)
	if pattern == nil {
		t.Fatalf("%s: want -run '^Test(A|B)$'", line)
	}
	var tests []string
	for _, s := range sources(t) {
		if s.test && filepath.Dir(s.name) == filepath.Clean(dir) {
			for _, d := range s.syntax.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					tests = append(tests, f.Name.Name)
				}
			}
		}
	}
	for name := range strings.SplitSeq(pattern[1], "|") {
		if !slices.Contains(tests, "Test"+name) {
			t.Errorf("%s: there is no Test%s", line, name)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

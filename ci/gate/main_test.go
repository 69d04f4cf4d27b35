package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// command is the gate as it is built, since exit codes are a process's.
var command string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gate-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "gate")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// gate runs the command in a folder.
func gate(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Dir = dir
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String()
}

func passed(store string) checker.Report {
	return checker.Report{
		Schema: checker.Schema, Store: store, Test: "TestOf" + store, Scenario: "default", Verdict: checker.Pass, Seed: 7,
		Counts:  checker.Counts{Plans: 2400, Distinct: 2398, Operations: 74040, Claims: 22750, Takeovers: 8775, Faults: 347},
		Effects: checker.Effects{None: 289, Once: 2696},
		Reached: map[string]int{"redelivery met DONE": 2031},
	}
}

// broken is a real violation, judged from a history.
func broken(t *testing.T, store string) checker.Report {
	t.Helper()
	text := `effectonce history 1
store "` + store + `"
scenario ""
seed 9
epoch 2024-03-01T12:00:00Z
contract
capabilities
op 1 w1/1 begin "orders" "m-1" now=0s lease=30s call=1 return=2 -> ok claimed state="PROCESSING" attempts=1 lease-until=30s updated-at=0s token="100"
op 2 w1/1 complete-claim "orders" "m-1" claim=#1 now=5s call=3 return=4 -> ok
op 3 w2/2 begin "orders" "m-1" now=40s lease=30s call=5 return=6 -> ok claimed state="PROCESSING" attempts=2 lease-until=1m10s updated-at=40s token="300"
end 3
`
	h, err := model.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := checker.Check(h)
	if r.Verdict != checker.Violated {
		t.Fatalf("a message that was claimed when it was DONE is %s", r.Verdict)
	}
	r.Replay, r.Plan = "5 of 5", "effectonce plan 1\nworker w1 zone=0\nend 1\n"
	return r
}

func undecidedOf(store string) checker.Report {
	r := passed(store)
	r.Verdict, r.Limit = checker.Undecided, "porcupine had 5s for one key; raise Timeout"
	return r
}

func inconclusiveOf(store string) checker.Report {
	r := passed(store)
	r.Verdict, r.Limit = checker.Inconclusive, `too little happened: no plan came to "prune removed"`
	r.Missed = []string{"prune removed"}
	return r
}

func waiving(store string, i model.InvariantID) checker.Report {
	r := passed(store)
	r.Waivers = []checker.Waiver{{Invariant: i, Reason: "ticket 12", Until: time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)}}
	r.NotPromised = []checker.Cell{{Invariant: i, Why: "waived: ticket 12"}}
	return r
}

// leave writes reports as a run does: each in a folder of its own.
func leave(t *testing.T, reports ...checker.Report) string {
	t.Helper()
	dir := t.TempDir()
	for i, r := range reports {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, fmt.Sprintf("Test%d", i), reportFile), string(text)+"\n")
	}
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

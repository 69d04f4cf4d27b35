package broken_test

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// A store that never answers must not take the whole test binary with it.
func TestACallThatNeverReturnsIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two bounds of a call, about 12s; runs without -short")
	}
	t.Parallel() // it waits, and no more
	byName := scenarios.Only(scenarios.ByName)
	r, err := scenarios.Explore(t.Context(), brokenMemory(broken.LocksTwice), byName)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != checker.Violated || r.Reasons[0].Invariant != model.EveryCallReturns || r.Replay != "1 of 1" {
		t.Fatalf("%s %v, again %s", r.Verdict, r.Reasons, r.Replay)
	}
	if !strings.Contains(r.History, "-> pending late") {
		t.Error(r.History)
	}
	if r, err := scenarios.Explore(t.Context(), brokenMemory(broken.None), byName); err != nil || r.Verdict != checker.Pass {
		t.Errorf("the right relative: %v %s\n%s", err, r.Verdict, r.Explain())
	}
}

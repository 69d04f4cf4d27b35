package scenarios_test

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// A store that never answers must not take the whole test binary with it.
func TestACallThatNeverReturnsIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two bounds of a call, about 12s; runs without -short")
	}
	t.Setenv("EFFECTONCE_PLAN", `effectonce plan 1; worker w1 zone=0; key k1 "orders" "m1"; w1 complete k1; w1 begin k1 lease=1s; end 2`)
	r := explore(t, brokenMemory(broken.LocksTwice))
	if r.Verdict != checker.Violated || r.Reasons[0].Invariant != model.EveryCallReturns || r.Replay != "1 of 1" {
		t.Fatalf("%s %v, again %s", r.Verdict, r.Reasons, r.Replay)
	}
	if !strings.Contains(r.History, "-> pending late") {
		t.Error(r.History)
	}
	if r := explore(t, brokenMemory(broken.None)); r.Verdict != checker.Pass {
		t.Errorf("the right relative: %s\n%s", r.Verdict, r.Explain())
	}
}

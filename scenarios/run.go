package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// Test is a user's whole test: it draws plans, runs each against the store that the harness opens, judges what
// happened, and fails with a small plan that can be replayed if nothing explains it. A test that could not decide,
// or in which too little happened, fails too, and says so in its first line.
//
// What a store answers is never trusted and never repeated; run it with -race.
func Test(t *testing.T, h Harness, opts ...Option) {
	t.Helper()
	c, err := configure(opts, testing.Short())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if deadline, set := t.Deadline(); set {
		reserve := min(deadlineReserve, time.Until(deadline)/deadlineReserves)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	if c.history == "" {
		t.Logf("%s: seed %d", h.Name, c.seed)
	} else {
		t.Logf("%s: judging %s", h.Name, c.history)
	}
	report, err := explore(ctx, &h, c)
	if err != nil {
		t.Fatal(err)
	}
	report.Test = t.Name()
	out := c.out
	if out == "" && report.Verdict != checker.Pass {
		out = kept(t)
	}
	if err := write(&report, out, t.Name()); err != nil {
		t.Error(err)
	}
	if report.Verdict != checker.Pass {
		t.Fatal(failure(&report, t.Name(), c.plan == "" && c.history == ""))
	}
	t.Log(summary(&report))
}

// kept is a folder that is still there when a person comes to look: the test's artifact folder if go test keeps those
// (-artifacts), else one of its own. Without the flag an artifact folder goes with the test.
func kept(t *testing.T) string {
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	dir, err := os.MkdirTemp("", "effectonce-failed-")
	if err != nil {
		t.Log(err)
		return ""
	}
	return dir
}

// Explore is Test without a testing.T: it works in a plain main. An error is a harness or a configuration that
// cannot be used; what the store did wrong stands in the report.
func Explore(ctx context.Context, h Harness, opts ...Option) (checker.Report, error) {
	c, err := configure(opts, false)
	if err != nil {
		return checker.Report{}, err
	}
	report, err := explore(ctx, &h, c)
	if err != nil {
		return report, err
	}
	return report, write(&report, c.out, h.Name)
}

// Judge checks a recorded history. The facts stand in its head; a contract that is not the zero one replaces them.
func Judge(h []byte, c model.Contract) (checker.Report, error) {
	history, err := model.Parse(string(h))
	if err != nil {
		return checker.Report{}, err
	}
	if !isZero(c) {
		if err := c.Validate(); err != nil {
			return checker.Report{}, err
		}
		history.Contract = c
	}
	return checker.Check(history), nil
}

// explore is the recipe: open, ask what the store can do, draw and run and judge until enough happened or
// something is wrong, then reduce what is wrong, and report.
func explore(ctx context.Context, h *Harness, c *config) (checker.Report, error) {
	if err := h.validate(); err != nil {
		return checker.Report{}, err
	}
	if c.history != "" {
		return judgeFile(c.history)
	}
	g := &campaign{c: c, names: &namespaces{run: freshSeed() & 0xffffffff}}
	g.h, g.expired = withoutExpired(h, time.Now())
	if err := g.reach(ctx); err != nil {
		return checker.Report{}, err
	}
	if err := g.ask(ctx); err != nil {
		return checker.Report{}, err
	}
	if c.plan != "" {
		return g.replay(ctx)
	}
	budget := c.budget
	if c.short {
		budget /= shortShare
	}
	t, err := g.run(ctx, budget)
	if err != nil {
		return checker.Report{}, err
	}
	return g.report(ctx, t)
}

// withoutExpired takes the waivers away whose time is over.
func withoutExpired(h *Harness, now time.Time) (*Harness, []model.Waiver) {
	running := *h
	running.Contract.Waivers = nil
	var expired []model.Waiver
	for _, w := range h.Contract.Waivers {
		if w.Until.IsZero() || now.Before(w.Until) {
			running.Contract.Waivers = append(running.Contract.Waivers, w)
		} else {
			expired = append(expired, w)
		}
	}
	return &running, expired
}

func judgeFile(name string) (checker.Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return checker.Report{}, fmt.Errorf("scenarios: EFFECTONCE_HISTORY: %w", err)
	}
	return Judge(text, model.Contract{})
}

package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	c, err := configure(opts, os.Environ(), testing.Short())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if deadline, set := t.Deadline(); set {
		reserve := min(deadlineReserve, time.Until(deadline)/deadlineReserves)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	t.Logf("%s: seed %d", h.Name, c.seed)
	report, err := explore(ctx, &h, c)
	if err != nil {
		t.Fatal(err)
	}
	out := c.out
	if out == "" && report.Verdict != checker.Pass {
		out = t.ArtifactDir()
	}
	if err := write(&report, out, t.Name()); err != nil {
		t.Error(err)
	}
	if report.Verdict != checker.Pass {
		t.Fatal(failure(&report, t.Name()))
	}
	t.Log(summary(&report))
}

// Explore is Test without a testing.T: it works in a plain main. An error is a harness or a configuration that
// cannot be used; what the store did wrong stands in the report.
func Explore(ctx context.Context, h Harness, opts ...Option) (checker.Report, error) {
	c, err := configure(opts, os.Environ(), false)
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
		history.Contract.AcceptsKey = nil // a function is no fact that prints
	}
	return checker.Check(history), nil
}

// campaign is one run of many plans.
type campaign struct {
	h       *Harness
	c       *config
	names   *namespaces
	found   capabilities
	planner *planner
	expired []model.Waiver
	until   time.Time
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
	g.until = time.Now().Add(budget)
	t, err := g.run(ctx)
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

// reachAtMost bounds the wait for a server that may not be there.
const reachAtMost = 3 * time.Second

// reach makes sure of the server before anything is opened.
func (g *campaign) reach(ctx context.Context) error {
	if g.h.Upstream == "" {
		return nil
	}
	dialer := net.Dialer{Timeout: reachAtMost}
	conn, err := dialer.DialContext(ctx, "tcp", g.h.Upstream)
	if err != nil {
		return fmt.Errorf("scenarios: %s: the server cannot be reached: %w", g.h.Name, err)
	}
	return conn.Close()
}

// ask opens the store once to find out what it can do, and refuses a harness that cannot be judged.
func (g *campaign) ask(ctx context.Context) (err error) {
	l := &lane{h: g.h, names: g.names}
	defer func() { err = errors.Join(err, l.end(context.WithoutCancel(ctx))) }()
	if err := l.ready(ctx); err != nil {
		return err
	}
	first, err := l.open(ctx, 1)
	if err != nil {
		return err
	}
	g.found = first.capabilities
	if g.found.committer != nil && g.h.Effects == nil {
		return fmt.Errorf("scenarios: %s: the store commits effects, and Effects is not set: nothing could count them", g.h.Name)
	}
	if err := g.required(); err != nil {
		return err
	}
	g.planner = newPlanner(newSurface(g.h, g.found))
	return g.separate(ctx, l, first)
}

func (g *campaign) required() error {
	names := map[string]bool{}
	for kind, name := range optional() {
		names[name] = slices.Contains(g.found.kinds(), kind)
	}
	for _, want := range g.c.require {
		has, known := names[want]
		if !known {
			return fmt.Errorf("scenarios: Require: %q is no capability that this version judges", want)
		}
		if !has {
			return fmt.Errorf("scenarios: %s: the store has no %s, which is required; a wrapper hides optional methods", g.h.Name, want)
		}
	}
	return nil
}

// separate claims one message in two namespaces. A harness whose namespaces are one would have its plans disturb
// each other, and a right store accused.
func (g *campaign) separate(ctx context.Context, l *lane, first *handle) error {
	if g.h.Contract.SharedNamespace {
		return nil
	}
	other := &lane{h: g.h, names: g.names}
	defer other.end(context.WithoutCancel(ctx))
	if err := other.ready(ctx); err != nil {
		return err
	}
	second, err := other.open(ctx, 1)
	if err != nil {
		return err
	}
	const consumer, id, lease = "effectonce", "namespaces are separate", time.Hour
	_, claimed, err := first.store.Begin(ctx, consumer, id, epoch, lease)
	if err != nil || !claimed {
		return nil // that is for the plans to find, and to show
	}
	r, again, err := second.store.Begin(ctx, consumer, id, epoch, lease)
	if err == nil && !again && r.State == model.Processing {
		return fmt.Errorf("scenarios: %s: a record of namespace %q is visible in %q: let Open use Env.Namespace, or set Contract.SharedNamespace",
			g.h.Name, l.namespace, other.namespace)
	}
	return nil
}

// run runs plans on several lanes until there were enough, the budget is spent, or one went wrong. Of several that
// went wrong the first drawn counts.
func (g *campaign) run(ctx context.Context) (*tally, error) {
	lanes, plans := g.width()
	var next atomic.Int64
	var stop atomic.Bool
	total := newTally()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for range lanes {
		wg.Go(func() {
			l := &lane{h: g.h, names: g.names}
			own := newTally()
			err := g.runLane(ctx, l, own, &next, &stop, plans)
			err = errors.Join(err, l.end(context.WithoutCancel(ctx)))
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			total.add(own)
		})
	}
	wg.Wait()
	if total.bad != nil {
		return total, nil // what a store did wrong is told even if the run was cut short
	}
	return total, failed
}

func (g *campaign) width() (lanes, plans int) {
	lanes, plans = runtime.GOMAXPROCS(0), plansInProcess
	if g.h.Upstream != "" {
		lanes, plans = lanesOnTheWire, plansOnTheWire
	}
	if g.h.Contract.SharedNamespace {
		lanes = 1
	}
	if g.c.plans > 0 {
		plans = g.c.plans
	}
	if g.c.short {
		plans = max(1, plans/shortShare)
	}
	return min(lanes, plans), plans
}

func (g *campaign) runLane(ctx context.Context, l *lane, t *tally, next *atomic.Int64, stop *atomic.Bool, plans int) error {
	judge := &checker.Judge{}
	for !stop.Load() && time.Now().Before(g.until) {
		i := int(next.Add(1)) - 1
		if i >= plans {
			return nil
		}
		plan := g.planner.plan(g.c.seed, stepped, i)
		r, err := l.run(ctx, plan)
		if err != nil {
			stop.Store(true)
			return err
		}
		r.history.Seed = g.c.seed
		judge.Porcupine = i%porcupineOneIn == 0
		j := judge.Judge(r.history)
		t.count(plan, r.history, &j)
		if j.Verdict != checker.Pass {
			l.dirty = true
			t.bad = &failing{number: i, plan: plan, ran: r, judgement: j}
			stop.Store(true)
			return nil
		}
	}
	return nil
}

// report turns what was counted into a report, after reducing what went wrong.
func (g *campaign) report(ctx context.Context, t *tally) (checker.Report, error) {
	if t.bad == nil {
		return t.report(g), nil
	}
	l := &lane{h: g.h, names: g.names}
	r := &reducer{lane: l, until: time.Now().Add(reduceBudget)}
	bad := t.bad
	if bad.judgement.Verdict == checker.Violated {
		bad = r.reduce(ctx, bad)
	}
	report := t.reportOf(g, bad)
	if bad.judgement.Verdict == checker.Violated {
		report.Replay = r.again(ctx, bad)
	}
	return report, l.end(context.WithoutCancel(ctx))
}

// replay runs one given plan several times.
func (g *campaign) replay(ctx context.Context) (checker.Report, error) {
	text, err := g.c.planText()
	if err != nil {
		return checker.Report{}, err
	}
	plan, err := ParsePlan(text)
	if err != nil {
		return checker.Report{}, err
	}
	l := &lane{h: g.h, names: g.names}
	ran, err := l.run(ctx, plan)
	if err != nil {
		return checker.Report{}, errors.Join(err, l.end(context.WithoutCancel(ctx)))
	}
	judge := &checker.Judge{Porcupine: true}
	j := judge.Judge(ran.history)
	t := newTally()
	t.count(plan, ran.history, &j)
	bad := &failing{plan: plan, ran: ran, judgement: j}
	report := t.reportOf(g, bad)
	report.Missed = nil // one plan owes no marks
	if j.Verdict == checker.Violated {
		r := &reducer{lane: l, until: time.Now().Add(reduceBudget)}
		report.Replay = r.again(ctx, bad)
	}
	return report, l.end(context.WithoutCancel(ctx))
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

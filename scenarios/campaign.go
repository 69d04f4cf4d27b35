package scenarios

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// campaign is one run of many plans.
type campaign struct {
	h       *Harness
	c       *config
	names   *namespaces
	found   capabilities
	planner *planner
	expired []model.Waiver
	until   time.Time
	drawn   map[Tier]int // plans so far
}

// longerAtMost is how often a run is made longer by its budget, where a slow machine kept it from its marks.
const longerAtMost = 2

// run runs the plans of each tier, and more of them as long as a mark is missing.
func (g *campaign) run(ctx context.Context, budget time.Duration) (*tally, error) {
	total := newTally()
	g.drawn = map[Tier]int{}
	g.until = time.Now().Add(budget) // the drawn plans have as much again
	if err := g.runByName(ctx, total); err != nil || total.bad != nil {
		return total, err
	}
	for range 1 + longerAtMost {
		g.until = time.Now().Add(budget)
		if err := g.runTiers(ctx, total); err != nil {
			return nil, err
		}
		if total.bad != nil || len(g.missed(total)) == 0 || g.c.plans > 0 || ctx.Err() != nil {
			break
		}
	}
	return total, nil
}

// missed are the marks that no plan has come to.
func (g *campaign) missed(t *tally) []string {
	came := t.byMark()
	return slices.DeleteFunc(g.required(), func(mark string) bool { return came[mark] > 0 })
}

// runTiers runs each tier once. What went wrong one operation at a time is not asked for at once.
func (g *campaign) runTiers(ctx context.Context, total *tally) error {
	end, share := g.until, time.Until(g.until)/(firstShare+1)
	tiers := slices.DeleteFunc(g.c.tiers(), func(t Tier) bool { return t == ByName })
	for i, tier := range tiers {
		switch now := time.Now(); {
		case i+1 < len(tiers):
			g.until = now.Add(time.Until(end) * firstShare / (firstShare + 1))
		case i > 0 && now.Add(share).After(end): // plans that wait for seconds may have used up the time of what comes after
			g.until = now.Add(share)
		default:
			g.until = end
		}
		t, err := g.runTier(ctx, tier)
		if err != nil {
			return err
		}
		total.add(t)
		if total.bad != nil {
			break
		}
	}
	return nil
}

// runTier runs plans on several lanes until there were enough, the budget is spent, or one went wrong. Of several
// that went wrong the first drawn counts.
func (g *campaign) runTier(ctx context.Context, tier Tier) (*tally, error) {
	lanes, plans := g.width(tier)
	var next atomic.Int64
	next.Store(int64(g.drawn[tier]))
	plans += g.drawn[tier]
	defer func() { g.drawn[tier] = min(int(next.Load()), plans) }()
	var stop atomic.Bool
	total := newTally()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for range lanes {
		wg.Go(func() {
			l := &lane{h: g.h, names: g.names}
			own := newTally()
			err := g.runLane(ctx, l, own, tier, &next, &stop, plans)
			err = errors.Join(err, l.end(context.WithoutCancel(ctx)))
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			total.add(own)
		})
	}
	wg.Wait()
	if total.bad == nil {
		total.bad = total.odd
	}
	if total.bad != nil {
		return total, nil // what a store did wrong is told even if the run was cut short
	}
	return total, failed
}

func (g *campaign) width(tier Tier) (lanes, plans int) {
	lanes, plans = runtime.GOMAXPROCS(0), plansInProcess
	if g.h.Upstream != "" {
		lanes, plans = lanesOnTheWire, plansOnTheWire
	}
	if g.h.waits() {
		lanes = lanesThatWait
	}
	if g.h.Contract.SharedNamespace || g.h.Advance != nil { // all namespaces of a server have its one clock
		lanes = 1
	}
	if g.c.plans > 0 {
		plans = g.c.plans
	}
	if tier == Real {
		plans = max(1, plans/realShare)
	}
	if g.c.short {
		plans = max(1, plans/shortShare)
	}
	return min(lanes, plans), plans
}

func (g *campaign) runLane(ctx context.Context, l *lane, t *tally, tier Tier, next *atomic.Int64, stop *atomic.Bool, plans int) error {
	judge := &checker.Judge{}
	for !stop.Load() && time.Now().Before(g.until) {
		i := int(next.Add(1)) - 1
		if i >= plans {
			return nil
		}
		plan := g.planner.plan(g.c.seed, tier, i)
		r, err := l.run(ctx, plan)
		if err != nil {
			stop.Store(true)
			return err
		}
		r.history.Seed = g.c.seed
		judge.Porcupine = i%porcupineOneIn == 0
		j := r.judged(judge)
		t.count(plan, r.history, &j)
		if j.Verdict == checker.Pass {
			l.seen = append(l.seen, plan)
			continue
		}
		before := l.seen
		l.dirty = true
		bad, alone := g.alone(ctx, l, before, &failing{number: i, plan: plan, ran: r, judgement: j})
		if !alone {
			t.odd = bad
			continue
		}
		t.bad = bad
		stop.Store(true)
		return nil
	}
	return nil
}

// alone makes sure that a violation is the plan's own. What needed what earlier plans left in the namespace is looked
// for in those plans and this one as one plan; if that does not show it either, it is kept in case nothing better
// is found.
func (g *campaign) alone(ctx context.Context, l *lane, before []*Plan, bad *failing) (*failing, bool) {
	if bad.judgement.Verdict != checker.Violated || bad.judgement.Reason.Invariant == model.EveryCallReturns {
		return bad, true
	}
	if bad.plan.Tier == Real {
		return bad, true // it may not fail again at once, and is no less true for that
	}
	r := &reducer{lane: l}
	if r.run(ctx, bad.plan) != nil {
		return bad, true
	}
	if len(before) > 0 && g.h.Contract.Clock == model.CallerClock {
		for n := 1; ; n *= 4 {
			n = min(n, len(before))
			if f := r.run(ctx, joined(append(before[len(before)-n:len(before):len(before)], bad.plan))); f != nil {
				f.number = bad.number
				return f, true
			}
			if n == len(before) {
				break
			}
		}
	}
	l.dirty = true
	return bad, false
}

// joined makes one plan of several that ran one after the other in one namespace: between two of them the clocks are
// set back, and what is DONE is pruned.
func joined(plans []*Plan) *Plan {
	all := &Plan{Tier: Stepped}
	for i, p := range plans {
		keys := len(all.Keys)
		all.Keys = append(all.Keys, p.Keys...)
		for len(all.Zones) < len(p.Zones) {
			all.Zones = append(all.Zones, p.Zones[len(all.Zones)])
		}
		now, skews := time.Duration(0), make([]time.Duration, len(p.Zones))
		for _, s := range p.Steps {
			switch s.Verb {
			case ClockStep:
				now += s.By
			case SkewStep:
				skews[s.Worker-1] = s.By
			}
			if s.Key > 0 {
				s.Key += keys
			}
			all.Steps = append(all.Steps, s)
		}
		if i+1 == len(plans) {
			break
		}
		if now != 0 {
			all.Steps = append(all.Steps, Step{Verb: ClockStep, By: -now})
		}
		for w, skew := range skews {
			if skew != 0 {
				all.Steps = append(all.Steps, Step{Worker: w + 1, Verb: SkewStep})
			}
		}
		all.Steps = append(all.Steps, Step{Worker: 1, Verb: model.Prune, By: farFuture})
	}
	return all
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
	j := ran.judged(judge)
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

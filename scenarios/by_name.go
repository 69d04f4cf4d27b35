package scenarios

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce/checker"
)

// swept is the name of the sweep, which is many plans.
const swept = "every operation meets every fault in every state"

// byName are the plans that every run begins with, in order.
func (s surface) byName() []named {
	all := s.named()
	for _, p := range s.sweep() {
		all = append(all, named{swept, p})
	}
	// Last, since what also goes wrong one operation at a time is easier to read there.
	all = append(all, named{"six consumers at once handle a message once", s.write(Real, 6, s.sixAtOnce)})
	for i := range all {
		nameKeys(all[i].plan, i)
	}
	return all
}

// runByName runs the plans by name, as far as the time allows. Of several that went wrong the first counts. Those of a
// tier that is left out are left out.
func (g *campaign) runByName(ctx context.Context, total *tally) error {
	if !slices.Contains(g.c.tiers(), ByName) {
		return nil
	}
	plans := slices.DeleteFunc(g.planner.surface.byName(), func(n named) bool { return slices.Contains(g.c.without, n.plan.Tier) })
	lanes, _ := g.width(Stepped)
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for range min(lanes, len(plans)) {
		wg.Go(func() {
			own := newTally()
			err := g.takeNamed(ctx, plans, &next, own)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			total.add(own)
		})
	}
	wg.Wait()
	if total.bad != nil {
		return nil // what a store did wrong is told even if the run was cut short
	}
	for i, n := range plans {
		last := i+1 == len(plans) || plans[i+1].name != n.name // the sweep is named once it is through
		if last && i < int(next.Load()) {
			total.named = append(total.named, n.name)
		}
	}
	return failed
}

// takeNamed is one lane's share of the plans.
func (g *campaign) takeNamed(ctx context.Context, plans []named, next *atomic.Int64, t *tally) (err error) {
	l := &lane{h: g.h, names: g.names}
	defer func() { err = errors.Join(err, l.end(context.WithoutCancel(ctx))) }()
	judge := &checker.Judge{Porcupine: true}
	for t.bad == nil && ctx.Err() == nil && time.Now().Before(g.until) {
		i := int(next.Add(1)) - 1
		if i >= len(plans) {
			return nil
		}
		r, err := l.run(ctx, plans[i].plan)
		if err != nil {
			return err
		}
		r.history.Seed = g.c.seed
		j := r.judged(judge)
		t.happened(r.history, &j)
		if j.Verdict != checker.Pass {
			l.dirty = true
			t.bad = &failing{number: i, plan: plans[i].plan, ran: r, judgement: j}
		}
	}
	return ctx.Err()
}

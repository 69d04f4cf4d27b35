package scenarios

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// reducer makes a failing plan small. It works on the plan itself, since a plan is data that any run can take: the
// same reduction serves every store, in a test and outside of one, and a plan that was read from a file.
//
// A candidate is kept if it fails for the same reason, or with fewer steps for a wider one: what also goes wrong
// without a prune was not the prune's fault.
type reducer struct {
	lane  *lane
	until time.Time
	runs  int
	best  *failing
	// luck: it takes real concurrency, so that a candidate has to fail most of the times that it is run.
	luck bool
	sure bool // the reason was asked for by one more claim, and is not given up for another one
}

func (r *reducer) reduce(ctx context.Context, bad *failing) *failing {
	first := *bad
	first.drawn = len(bad.plan.Steps)
	r.best = &first
	if bad.plan.Tier == Real && !r.inOrder(ctx) {
		if r.luck = true; r.run(ctx, bad.plan) == nil {
			// What cannot be repeated cannot be cut down. Of many meetings, a few are enough to look at, and to try again.
			r.best.plan = r.nearTheGuilty()
			return r.best
		}
	}
	if first.judgement.Reason.Invariant == model.EveryCallReturns {
		r.try(ctx, r.upToTheGuilty(false)) // each further run would take as long as the bound
		return r.best
	}
	r.try(ctx, plainKeys(r.best.plan)) // first, since plans with plain keys can share a namespace
	if !r.try(ctx, r.upToTheGuilty(false)) {
		r.try(ctx, r.upToTheGuilty(true))
	}
	r.try(ctx, r.withoutOtherKeys())
	r.shrink(ctx)
	if r.doubt(ctx) {
		r.shrink(ctx)
	}
	return r.best
}

// inOrder tries the plan one operation at a time, in the order in which the calls were made. What fails so needs no
// luck any more.
func (r *reducer) inOrder(ctx context.Context) bool {
	p := *r.best.plan
	p.Tier = Stepped
	p.Steps = nil
	next := 0
	for _, at := range r.best.ran.steps {
		for ; next < len(r.best.plan.Steps) && next <= at; next++ {
			if s := r.best.plan.Steps[next]; !s.calls() {
				p.Steps = append(p.Steps, s)
			}
		}
		p.Steps = append(p.Steps, r.best.plan.Steps[at])
	}
	r.runs++
	f := r.run(ctx, &p)
	if f == nil {
		return false
	}
	f.number, f.drawn = r.best.number, r.best.drawn
	r.best = f
	return true
}

func (r *reducer) shrink(ctx context.Context) {
	for before := -1; before != r.size() && !r.spent(ctx); {
		before = r.size()
		r.dropSteps(ctx)
		r.simplifySteps(ctx)
		r.try(ctx, withoutUnused(r.best.plan))
		r.try(ctx, plainZones(r.best.plan))
		r.try(ctx, plainKeys(r.best.plan))
	}
}

// doubt asks each key how it ended. A small plan can leave two promises open as its reason: a prune that found
// nothing left its record, or the record had gone before. Where one more claim decides otherwise, it decides.
func (r *reducer) doubt(ctx context.Context) bool {
	steps := slices.Clone(r.best.plan.Steps)
	for k := range r.best.plan.Keys {
		steps = append(steps, Step{Worker: 1, Verb: model.Begin, Key: k + 1, Lease: time.Hour})
	}
	r.runs++
	f := r.run(ctx, with(r.best.plan, steps))
	if f == nil || f.judgement.Reason.Invariant == r.best.judgement.Reason.Invariant {
		return false
	}
	f.number, f.drawn = r.best.number, r.best.drawn
	r.best, r.sure = f, true
	return true
}

// size is what reduction brings down; the steps count most.
func (r *reducer) size() int { return 1000*len(r.best.plan.Steps) + len(r.best.plan.Print()) }

func (r *reducer) spent(ctx context.Context) bool {
	return r.runs >= reduceAtMost || time.Now().After(r.until) || ctx.Err() != nil
}

// try keeps a candidate that fails for the same reason, or a wider one.
func (r *reducer) try(ctx context.Context, p *Plan) bool {
	if p == nil || r.spent(ctx) {
		return false
	}
	r.runs++
	if !r.maybe(ctx, p) {
		return false
	}
	f := r.run(ctx, p)
	if f == nil || !r.asGood(f) {
		return false
	}
	f.number, f.drawn = r.best.number, r.best.drawn
	r.best = f
	return true
}

// maybe runs a candidate in the namespace that is open, under message ids of its own. Most candidates pass, and a
// namespace costs more than a run. Only one that fails is worth a fresh namespace, in which it has to fail again.
func (r *reducer) maybe(ctx context.Context, p *Plan) bool {
	if r.lane.h.Upstream == "" || !hasPlainKeys(p) || r.luck {
		return true
	}
	q := with(p, p.Steps)
	q.Keys = slices.Clone(p.Keys)
	for k := range q.Keys {
		q.Keys[k].ID = fmt.Sprintf("%s-%d", q.Keys[k].ID, r.runs)
	}
	return r.judge(ctx, q) != nil
}

func (r *reducer) asGood(f *failing) bool {
	is, was := f.judgement.Reason.Invariant, r.best.judgement.Reason.Invariant
	if is == was || r.sure {
		return is == was
	}
	// TypedAnswers is the reason when no other is: any other says more.
	return len(f.plan.Steps) < len(r.best.plan.Steps) && (checker.Wider(is, was) || was == model.TypedAnswers)
}

// run runs a plan in a fresh namespace; nil if it did not violate. One that takes luck is run three times, and has to
// violate twice.
func (r *reducer) run(ctx context.Context, p *Plan) *failing {
	r.lane.dirty = true
	first := r.judge(ctx, p)
	if !r.luck {
		return first
	}
	r.lane.dirty = true
	second := r.judge(ctx, p)
	switch {
	case first != nil && second != nil:
		return first
	case first == nil && second == nil:
		return nil
	}
	r.lane.dirty = true
	return r.judge(ctx, p)
}

// judge runs a plan; nil if it did not violate, after which its namespace can be used again.
func (r *reducer) judge(ctx context.Context, p *Plan) *failing {
	ran, err := r.lane.run(ctx, p)
	if err != nil {
		return nil
	}
	ran.history.Seed = 0
	if r.best != nil {
		ran.history.Seed = r.best.ran.history.Seed
	}
	j := ran.judged(&checker.Judge{})
	if j.Verdict != checker.Violated {
		return nil
	}
	r.lane.dirty = true
	return &failing{plan: p, ran: ran, judgement: j}
}

// again says how often the plan fails for its reason when run again.
func (r *reducer) again(ctx context.Context, bad *failing) string {
	failed, replays := 0, replays
	if bad.judgement.Reason.Invariant == model.EveryCallReturns {
		replays = 1
	}
	r.luck = false // each run counts as it is
	for range replays {
		f := r.run(ctx, bad.plan)
		if f != nil && f.judgement.Reason.Invariant == bad.judgement.Reason.Invariant {
			failed++
		}
	}
	return fmt.Sprintf("%d of %d", failed, replays)
}

// upToTheGuilty cuts what came after the guilty step, but for the last call of each key, which shows how it ended.
func (r *reducer) upToTheGuilty(withEnds bool) *Plan {
	guilty := r.best.ran.steps[r.best.judgement.Reason.Guilty-1]
	all := r.best.plan.Steps
	steps := slices.Clone(all[:guilty+1])
	if ends := len(all) - len(r.best.plan.Keys); withEnds && ends > guilty {
		steps = append(steps, all[ends:]...)
	}
	return with(r.best.plan, steps)
}

// keysNearby is how many messages before and behind the guilty one are left of a plan that has more.
const keysNearby = 10

func (r *reducer) nearTheGuilty() *Plan {
	p := r.best.plan
	key := r.best.ran.history.Operations[r.best.judgement.Reason.Guilty-1].Key
	guilty := slices.Index(p.Keys, key) + 1
	if guilty == 0 || len(p.Keys) <= 2*keysNearby {
		return p
	}
	var steps []Step
	for _, s := range p.Steps {
		switch near := s.Key == 0 || s.Key >= guilty-keysNearby && s.Key <= guilty+keysNearby; {
		case !near:
		case s.Verb == ClockStep && len(steps) > 0 && steps[len(steps)-1].Verb == ClockStep:
			steps[len(steps)-1].By += s.By
		default:
			steps = append(steps, s)
		}
	}
	near := with(p, steps)
	if less := withoutUnused(near); less != nil {
		near = less
	}
	return near
}

func (r *reducer) withoutOtherKeys() *Plan {
	reason := r.best.judgement.Reason
	keys := map[model.Key]bool{}
	for _, id := range reason.Operations {
		keys[r.best.ran.history.Operations[id-1].Key] = true
	}
	var steps []Step
	for _, s := range r.best.plan.Steps {
		if s.Key == 0 || keys[r.best.plan.Keys[s.Key-1]] {
			steps = append(steps, s)
		}
	}
	return with(r.best.plan, steps)
}

// dropSteps leaves out runs of steps, long ones first.
func (r *reducer) dropSteps(ctx context.Context) {
	for size := (len(r.best.plan.Steps) + 1) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(r.best.plan.Steps) && !r.spent(ctx); {
			steps := r.best.plan.Steps
			less := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
			if len(less) == 0 || !r.try(ctx, with(r.best.plan, less)) {
				at += size
			}
		}
	}
}

// simplifySteps makes single steps plainer.
func (r *reducer) simplifySteps(ctx context.Context) {
	for i := 0; i < len(r.best.plan.Steps) && !r.spent(ctx); i++ {
		for _, plainer := range plainerSteps(r.best.plan.Steps, i) {
			r.try(ctx, with(r.best.plan, plainer))
			if i >= len(r.best.plan.Steps) {
				break
			}
		}
	}
}

package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// What a plan may be made plainer by.

func plainerSteps(steps []Step, i int) [][]Step {
	var all [][]Step
	change := func(change func(*Step)) {
		plainer := slices.Clone(steps)
		if change(&plainer[i]); plainer[i] != steps[i] {
			all = append(all, plainer)
		}
	}
	change(func(s *Step) { s.Fault, s.Request = Seen, 0 })
	change(func(s *Step) {
		if s.Fault.onTheWire() && s.Fault != ReplyLost {
			s.Fault = ReplyLost
		}
	})
	change(func(s *Step) {
		if s.Fault.onTheWire() {
			s.Fault, s.Request = Unseen, 0
		}
	})
	change(func(s *Step) { s.Cancelled = false })
	change(func(s *Step) { s.Claim = Latest })
	change(func(s *Step) {
		if s.Verb == model.BeginAs {
			s.Verb, s.Nonce = model.Begin, 0
		}
	})
	change(func(s *Step) {
		if s.calls() && s.Worker > 1 {
			s.Worker--
		}
	})
	change(func(s *Step) {
		if s.Verb == ClockStep && s.By > time.Second {
			s.By = s.By.Truncate(time.Second)
		}
	})
	if i > 0 && steps[i].Verb == ClockStep && steps[i-1].Verb == ClockStep {
		joined := slices.Concat(steps[:i], steps[i+1:])
		joined[i-1].By += steps[i].By
		all = append(all, joined)
	}
	return all
}

func with(p *Plan, steps []Step) *Plan {
	return &Plan{Tier: p.Tier, Zones: p.Zones, Keys: p.Keys, Steps: steps}
}

// withoutUnused renumbers workers and keys so that each is used.
func withoutUnused(p *Plan) *Plan {
	workers, keys := map[int]int{}, map[int]int{}
	q := &Plan{Tier: p.Tier, Steps: slices.Clone(p.Steps)}
	for i := range q.Steps {
		s := &q.Steps[i]
		if s.Worker > 0 {
			if workers[s.Worker] == 0 {
				q.Zones = append(q.Zones, p.Zones[s.Worker-1])
				workers[s.Worker] = len(q.Zones)
			}
			s.Worker = workers[s.Worker]
		}
		if s.Key > 0 {
			if keys[s.Key] == 0 {
				q.Keys = append(q.Keys, p.Keys[s.Key-1])
				keys[s.Key] = len(q.Keys)
			}
			s.Key = keys[s.Key]
		}
	}
	return different(p, q)
}

func plainZones(p *Plan) *Plan {
	return different(p, &Plan{Tier: p.Tier, Zones: make([]int, len(p.Zones)), Keys: p.Keys, Steps: p.Steps})
}

func plainKeys(p *Plan) *Plan {
	q := &Plan{Tier: p.Tier, Zones: p.Zones, Steps: p.Steps}
	for k := range p.Keys {
		q.Keys = append(q.Keys, plainKey(k))
	}
	return different(p, q)
}

func plainKey(k int) model.Key { return model.Key{Consumer: "orders", ID: fmt.Sprintf("m%d", k+1)} }

func hasPlainKeys(p *Plan) bool {
	for k := range p.Keys {
		if p.Keys[k] != plainKey(k) {
			return false
		}
	}
	return true
}

func different(p, q *Plan) *Plan {
	if p.Print() == q.Print() {
		return nil
	}
	return q
}

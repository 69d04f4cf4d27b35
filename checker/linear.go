package checker

import (
	"fmt"
	"hash/maphash"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/effectonce/effectonce/model"
)

// placed is one operation as porcupine places it. optional marks the further times that one Prune may meet a
// record: see [model.Rules.StepOptional].
type placed struct {
	*model.Event
	optional bool
}

// porcupine decides whether some order of a key's operations, within their intervals, explains the answers. An
// unknown outcome may take effect until it was closed, or never.
func (j *Judge) porcupine(rules *model.Rules, g *group) (*finding, string) {
	timeout := j.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	operations := place(g)
	result := porcupine.CheckOperationsTimeout(linearModel(rules), operations, timeout)
	switch result {
	case porcupine.Ok:
		return nil, ""
	case porcupine.Unknown:
		return nil, fmt.Sprintf("key %v with %d operations was not decided within %v; raise Judge.Timeout", g.key, len(operations), timeout)
	}
	_, info := porcupine.CheckOperationsVerbose(linearModel(rules), operations, 2*timeout)
	return unexplained(rules, g, operations, info), ""
}

func place(g *group) []porcupine.Operation {
	operations := make([]porcupine.Operation, 0, len(g.events))
	for _, e := range g.events {
		end := e.End()
		if end == 0 {
			end = math.MaxInt64
		}
		add := func(optional bool) {
			operations = append(operations, porcupine.Operation{
				ClientId: e.Worker, Input: placed{e, optional}, Call: e.Call, Return: end,
			})
		}
		add(false)
		if e.Kind == model.Prune {
			for range besides(g, e) {
				add(true)
			}
		}
	}
	return operations
}

func linearModel(rules *model.Rules) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return model.Fresh() },
		Step: func(state, input, _ any) (bool, any) {
			next := step(rules, state.(model.Possible), input.(placed))
			return len(next) > 0, next
		},
		Equal: func(a, b any) bool { return a.(model.Possible).Equal(b.(model.Possible)) },
		Hash: func(state any) uint64 {
			sum := uint64(0) // a sum, since the order of the states does not matter
			for _, s := range state.(model.Possible) {
				sum += maphash.Comparable(seed, s)
			}
			return sum
		},
	}
}

func step(rules *model.Rules, now model.Possible, in placed) model.Possible {
	if in.optional {
		return now.NextOptional(rules, in.Event)
	}
	return now.Next(rules, in.Event)
}

// unexplained picks the operation to point at: of those that the longest explanation leaves out, the one that
// returned first.
func unexplained(rules *model.Rules, g *group, operations []porcupine.Operation, info porcupine.LinearizationInfo) *finding {
	longest := []int{}
	for _, partition := range info.PartialLinearizations() {
		for _, p := range partition {
			if len(p) > len(longest) {
				longest = p
			}
		}
	}
	inside := make([]bool, len(operations))
	now := model.Fresh()
	for _, i := range longest {
		inside[i] = true
		now = step(rules, now, operations[i].Input.(placed))
	}
	guilty, first := 0, int64(math.MaxInt64)
	for i, o := range operations {
		if e := o.Input.(placed); !inside[i] && (guilty == 0 || o.Return < first) {
			guilty, first = e.ID, o.Return
		}
	}
	return &finding{key: g.key, guilty: guilty, before: now}
}

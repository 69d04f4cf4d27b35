package scenarios

import (
	"context"
	"sync"
	"testing"

	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

func benchHarness() *Harness {
	var mu sync.Mutex
	spaces := map[string]*memory.Space{}
	space := func(namespace string) *memory.Space {
		mu.Lock()
		defer mu.Unlock()
		if spaces[namespace] == nil {
			spaces[namespace] = memory.New(memory.Options{})
		}
		return spaces[namespace]
	}
	return &Harness{
		Name: "memory", Contract: memory.Contract(),
		Open: func(_ context.Context, env Env) (model.Store, error) { return space(env.Namespace).Open(), nil },
		Drop: func(_ context.Context, namespace string) error {
			mu.Lock()
			defer mu.Unlock()
			delete(spaces, namespace)
			return nil
		},
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return space(namespace).Effects(), nil
		},
	}
}

func benchPlanner(b *testing.B, h *Harness) (*planner, *lane) {
	b.Helper()
	g := &campaign{h: h, c: &config{}, names: &namespaces{}}
	if err := g.ask(b.Context()); err != nil {
		b.Fatal(err)
	}
	return g.planner, &lane{h: h, names: g.names}
}

// BenchmarkDraw is what drawing one plan costs.
func BenchmarkDraw(b *testing.B) {
	p, _ := benchPlanner(b, benchHarness())
	steps := 0
	for i := 0; b.Loop(); i++ {
		steps += len(p.plan(1, Stepped, i).Steps)
	}
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "plans/s")
}

// BenchmarkStepped is what one plan costs on memory: drawn, run and judged. The lanes are as many as processors, as
// in a run.
func BenchmarkStepped(b *testing.B) {
	h := benchHarness()
	p, first := benchPlanner(b, h)
	names := first.names
	var mu sync.Mutex
	next := 0
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		l := &lane{h: h, names: names}
		judge := &checker.Judge{}
		for pb.Next() {
			mu.Lock()
			next++
			i := next
			mu.Unlock()
			ran, err := l.run(b.Context(), p.plan(1, Stepped, i))
			if err != nil {
				b.Error(err)
				return
			}
			if j := judge.Judge(ran.history); j.Verdict != checker.Pass {
				b.Error(j.Verdict)
				return
			}
		}
		if err := l.end(b.Context()); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "plans/s")
}

package checker_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// busy is a history of a right store: so many calls of eight clients on so many keys, some of unknown outcome, and
// now and then a prune.
func busy(seed uint64, calls, keys, prunes, lossy int) *model.History {
	rnd := rand.New(rand.NewPCG(seed, 9))
	s := &simulation{rnd: rnd, store: newSimulatedStore(model.Contract{}), lossy: lossy}
	s.h = &model.History{Store: "busy", Epoch: epoch, Faults: []model.Fault{{ID: 1, Name: "reply lost", From: 1}}}
	s.kinds = []model.Kind{model.Begin, model.Begin, model.Begin, model.CommitEffect, model.CompleteClaim, model.Lookup}
	for i := range keys {
		s.keys = append(s.keys, model.Key{Consumer: "orders", ID: "m-" + strconv.Itoa(i)})
	}
	for i := range 8 {
		s.lanes = append(s.lanes, lane{worker: i + 1, handle: i + 1})
	}
	s.pruneEvery = calls / (prunes + 1)
	return s.run(calls)
}

func BenchmarkCheck(b *testing.B) {
	h := busy(1, 100_000, 1_000, 20, 60)
	if err := h.Validate(); err != nil {
		b.Fatal(err)
	}
	var judge checker.Judge
	var j checker.Judgement
	b.ReportAllocs()
	for b.Loop() {
		if j = judge.Judge(h); j.Verdict != checker.Pass {
			b.Fatal(j.Verdict, j.Limit, j.Reason)
		}
	}
	b.ReportMetric(float64(len(h.Operations)), "operations")
	b.ReportMetric(float64(j.Counts.Keys), "keys")
	b.ReportMetric(float64(j.Counts.Porcupine), "keys-by-porcupine")
	b.ReportMetric(float64(j.Counts.Unknown), "unknown")
}

// BenchmarkStepped is what judging one plan's history costs, one operation at a time.
func BenchmarkStepped(b *testing.B) {
	var histories []*model.History
	var judge checker.Judge
	for seed := uint64(0); len(histories) < 100; seed++ {
		if h := simulate(seed, 30, true); judge.Judge(h).Counts.Porcupine == 0 {
			histories = append(histories, h)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if j := judge.Judge(histories[i%len(histories)]); j.Verdict != checker.Pass {
			b.Fatal(j.Verdict)
		}
	}
}

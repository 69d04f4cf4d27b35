package model_test

import (
	"math/rand/v2"
	"testing"

	"github.com/effectonce/effectonce/model"
)

// drawn is a history of a right store, the same for the same seed.
func drawn(seed uint64, n int) *model.History {
	rnd := rand.New(rand.NewPCG(seed, 3))
	return live(draw(rnd), rnd, n)
}

// BenchmarkStep judges one operation of a history of 30 per iteration.
func BenchmarkStep(b *testing.B) {
	h := drawn(1, 30)
	rules, events := model.NewRules(h.Contract), h.Events()
	now, next := model.Fresh(), model.Possible(nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(events) == 0 {
			now = append(now[:0], model.KeyState{})
		}
		next = now.NextInto(next, rules, &events[i%len(events)])
		now, next = next, now
	}
}

// BenchmarkEvents prepares a history of 30 operations for judging.
func BenchmarkEvents(b *testing.B) {
	h := drawn(1, 30)
	b.ReportAllocs()
	for b.Loop() {
		h.Events()
	}
}

func BenchmarkPrint(b *testing.B) {
	h := drawn(1, 1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(h.Print())))
	for b.Loop() {
		h.Print()
	}
}

func BenchmarkParse(b *testing.B) {
	text := drawn(1, 1000).Print()
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := model.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

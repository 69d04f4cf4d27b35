package checker_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

func drawnHistories(t *testing.T, n int) int {
	t.Helper()
	if testing.Short() {
		return n / 10
	}
	return n
}

func TestARightStoreIsNeverAccused(t *testing.T) {
	var judge checker.Judge
	var undecided, overlapping int
	n := drawnHistories(t, 30_000)
	until := time.Now().Add(time.Minute)
	done := 0
	for seed := range uint64(n) {
		if time.Now().After(until) {
			break
		}
		h := simulate(seed, 10+int(seed%20), false)
		if err := h.Validate(); err != nil {
			t.Fatalf("seed %d: the simulator's history is none: %v", seed, err)
		}
		j := judge.Judge(h)
		done++
		if j.Counts.Porcupine > 0 {
			overlapping++
		}
		switch j.Verdict {
		case checker.Violated:
			r := judge.Report(h, j)
			t.Fatalf("seed %d: a right store is accused\n%s\n%s", seed, r.Explain(), h.Print())
		case checker.Undecided:
			undecided++
		}
	}
	t.Logf("%d histories, %d with operations that overlap, %d undecided", done, overlapping, undecided)
	if done < n/10 || overlapping < done/2 {
		t.Errorf("too little was judged: %d of %d histories, %d with operations that overlap", done, n, overlapping)
	}
	if undecided*1000 > done {
		t.Errorf("%d of %d undecided, want at most one in a thousand", undecided, done)
	}
}

func TestBothWaysAgreeWhereNothingOverlaps(t *testing.T) {
	both := checker.Judge{Porcupine: true}
	for seed := range uint64(drawnHistories(t, 5_000)) {
		h := simulate(seed, 20, true)
		if j := both.Judge(h); j.Verdict != checker.Pass {
			t.Fatalf("seed %d: %s %s\n%s", seed, j.Verdict, j.Limit, h.Print())
		}
	}
}

var _ = model.Begin

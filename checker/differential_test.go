package checker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// drawn is how many histories a test judges, fewer under -short.
func drawn(n int) uint64 {
	if testing.Short() {
		n /= 10
	}
	return uint64(n)
}

// A false alarm is the worst that a checker can do.
func TestARightStoreIsNeverAccused(t *testing.T) {
	const bound = 30 * time.Second
	var judge checker.Judge
	var judged, overlapping, undecided uint64
	n, began := drawn(10_000), time.Now()
	for seed := uint64(0); seed < n && time.Since(began) < bound; seed++ {
		h := simulate(seed, 10+int(seed%20), false)
		if err := h.Validate(); err != nil {
			t.Fatalf("seed %d: the simulator's history is none: %v", seed, err)
		}
		j := judge.Judge(h)
		judged++
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
	t.Logf("%d histories, %d with operations that overlap, %d undecided", judged, overlapping, undecided)
	if judged < n/10 || overlapping < judged/2 {
		t.Errorf("too little was judged: %d of %d histories, %d with operations that overlap", judged, n, overlapping)
	}
	if undecided*1000 > judged {
		t.Errorf("%d of %d undecided, want at most one in a thousand", undecided, judged)
	}
}

// Walking and porcupine decide alike where nothing overlaps: right histories, and wrong ones, at the same operation.
// A disagreement is undecided.
func TestBothWaysAgreeWhereNothingOverlaps(t *testing.T) {
	both := checker.Judge{Porcupine: true}
	violated := 0
	for seed := range drawn(1_000) {
		h := simulate(seed, 20, true)
		if seed%2 == 1 {
			change(h, rand.New(rand.NewPCG(seed, 3)), nil)
			if h.Validate() != nil {
				continue
			}
		}
		switch j := both.Judge(h); {
		case j.Verdict == checker.Undecided:
			t.Fatalf("seed %d: %s\n%s", seed, j.Limit, h.Print())
		case j.Verdict == checker.Violated && seed%2 == 0:
			r := both.Report(h, j)
			t.Fatalf("seed %d: a right store is accused\n%s\n%s", seed, r.Explain(), h.Print())
		case j.Verdict == checker.Violated:
			violated++
		}
	}
	if violated == 0 {
		t.Error("no changed history was accused")
	}
}

// A changed answer need not be wrong: most refusals are true of several states. How many are caught is the checker's
// power, and may not fall unnoticed.
func TestChangedAnswersAreCaught(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			var judge checker.Judge
			changed, caught := 0, 0
			for seed := range drawn(400) {
				h := simulate(seed, 24, seed%3 == 0)
				if !change(h, rand.New(rand.NewPCG(seed, 5)), &m) || h.Validate() != nil {
					continue
				}
				changed++
				j := judge.Judge(h)
				if j.Verdict != checker.Violated {
					continue
				}
				caught++
				if r := judge.Report(h, j); len(r.Explain()) == 0 {
					t.Fatalf("seed %d: no explanation", seed)
				}
			}
			percent := 100 * caught / max(1, changed)
			t.Logf("%d of %d caught: %d %%", caught, changed, percent)
			if changed == 0 || percent < m.atLeast {
				t.Errorf("%d of %d caught: %d %%, want at least %d %%", caught, changed, percent, m.atLeast)
			}
		})
	}
}

// mutation changes an answer, if it is of its kind.
type mutation struct {
	name    string
	atLeast int // percent caught
	change  func(o *model.Operation) bool
}

var mutations = []mutation{
	{"a refused claim is granted", 90, func(o *model.Operation) bool {
		a := &o.Answer
		if !o.Kind.Claims() || a.Outcome != model.OK || a.Yes {
			return false
		}
		a.Yes, a.State, a.Attempts, a.Token = true, model.Processing, a.Attempts+1, "1000000"
		a.LeaseUntil, a.UpdatedAt = o.Now.Add(o.Lease), o.Now
		return true
	}},
	{"a granted claim is refused", 90, func(o *model.Operation) bool {
		if !o.Granted() {
			return false
		}
		o.Answer.Yes = false
		return true
	}},
	{"one attempt more", 90, func(o *model.Operation) bool {
		if o.Answer.Attempts == 0 || !o.Kind.Claims() {
			return false
		}
		o.Answer.Attempts++
		return true
	}},
	{"a lease one second shorter", 85, func(o *model.Operation) bool {
		if o.Answer.LeaseUntil == model.NoInstant || !o.Kind.Claims() {
			return false
		}
		o.Answer.LeaseUntil = o.Answer.LeaseUntil.Add(-time.Second)
		return true
	}},
	{"a fenced call is ok", 70, func(o *model.Operation) bool {
		if !o.Kind.Fenced() || o.Kind == model.Extend || o.Answer.Refusal != model.Fenced {
			return false
		}
		o.Answer = model.Answer{Outcome: model.OK}
		return true
	}},
	{"an accepted call is fenced", 65, func(o *model.Operation) bool {
		if !o.Kind.Fenced() || o.Answer.Outcome != model.OK {
			return false
		}
		o.Answer = model.Answer{Outcome: model.NotApplied, Refusal: model.Fenced}
		return true
	}},
	{"a prune counts one more", 15, func(o *model.Operation) bool {
		if o.Kind != model.Prune || o.Answer.Outcome != model.OK {
			return false
		}
		o.Answer.Count++
		return true
	}},
	{"DONE is not found", 60, func(o *model.Operation) bool {
		if o.Kind != model.Lookup || o.Answer.State != model.Done {
			return false
		}
		o.Answer = model.Answer{Outcome: model.OK}
		return true
	}},
	{"told DONE", 85, func(o *model.Operation) bool {
		if o.Answer.State != model.Processing || o.Answer.Yes || !o.Kind.Claims() {
			return false
		}
		o.Answer.State = model.Done
		return true
	}},
	{"an effect is written twice", 90, nil},
}

// change changes one answer of a history, or one effect; a nil mutation is any.
func change(h *model.History, rnd *rand.Rand, m *mutation) bool {
	if m == nil {
		m = &mutations[rnd.IntN(len(mutations))]
	}
	if m.change == nil {
		if len(h.Effects) == 0 {
			return false
		}
		h.Effects = append(h.Effects, h.Effects[rnd.IntN(len(h.Effects))])
		return true
	}
	for _, i := range rnd.Perm(len(h.Operations)) {
		if o := &h.Operations[i]; o.Known() && m.change(o) {
			return true
		}
	}
	return false
}

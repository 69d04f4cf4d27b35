package checker_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// A Judge keeps buffers. What it says of a history may not depend on those before it.
func TestAJudgeRemembersNothing(t *testing.T) {
	var histories []*model.History
	var want []checker.Report
	for _, g := range goldens(t) {
		histories = append(histories, g.parse(t))
	}
	for seed := range drawn(300) {
		h := simulate(seed, 30, seed%2 == 0)
		if change(h, rand.New(rand.NewPCG(seed, 1)), nil); h.Validate() == nil {
			histories = append(histories, h)
		}
	}
	for _, h := range histories {
		want = append(want, checker.Check(h))
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var judge checker.Judge
	for range 3 {
		for _, i := range rnd.Perm(len(histories)) {
			if got := judge.Report(histories[i], judge.Judge(histories[i])); !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("a used judge says\n%s%+v\na new one\n%s%+v\nof\n%s", got.Explain(), got, want[i].Explain(), want[i], histories[i].Print())
			}
		}
	}
}

// tangled is a key on which so many claims were open at once that no order can be found, or refuted, in no time.
func tangled(calls int) *model.History {
	h := &model.History{Store: "tangled", Epoch: epoch, Faults: []model.Fault{{ID: 1, Name: "reply lost", From: 1}}}
	for i := range calls {
		o := model.Operation{ID: i + 1, Worker: i + 1, Handle: i + 1, Kind: model.Begin, Call: int64(i + 1), Fault: 1}
		o.Key = model.Key{Consumer: "orders", ID: "m-1"}
		o.Now, o.Lease = epoch.Add(time.Duration(calls-i)*time.Second), time.Duration(1+i%3)*time.Second
		h.Operations = append(h.Operations, o)
	}
	impossible := h.Operations[0]
	impossible.ID, impossible.Call, impossible.Return, impossible.Fault = calls+1, int64(calls+1), int64(calls+2), 0
	impossible.Answer = model.Answer{Outcome: model.OK, State: model.Done, Attempts: 1}
	h.Operations = append(h.Operations, impossible)
	return h
}

func TestWhatTakesTooLongIsUndecidedAndSaysWhatToRaise(t *testing.T) {
	judge := checker.Judge{Timeout: 50 * time.Millisecond}
	h := tangled(40)
	began := time.Now()
	j := judge.Judge(h)
	if j.Verdict != checker.Undecided || j.Reason != nil {
		t.Fatalf("%s, want undecided; reason %+v", j.Verdict, j.Reason)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v with a bound of 50ms", took)
	}
	r := judge.Report(h, j)
	first, _, _ := strings.Cut(r.Explain(), "\n")
	for _, want := range []string{"UNDECIDED (not a violation)", `"orders"/"m-1"`, "41 operations", "raise Judge.Timeout"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q does not say %q", first, want)
		}
	}
	if after := judge.Judge(simulate(1, 20, true)); after.Verdict != checker.Pass {
		t.Errorf("after it a right history is %s", after.Verdict)
	}
}

// One key that cannot be decided hides no violation of another one.
func TestAViolationIsFoundBesideAnUndecidedKey(t *testing.T) {
	h := tangled(40)
	other := model.Operation{ID: 42, Worker: 1, Handle: 1, Kind: model.Complete, Call: 50, Return: 51, Now: epoch}
	other.Key = model.Key{Consumer: "orders", ID: "m-2"}
	other.Answer.Outcome = model.OK
	h.Operations = append(h.Operations, other)
	judge := checker.Judge{Timeout: 50 * time.Millisecond}
	if j := judge.Judge(h); j.Verdict != checker.Violated || j.Reason.MessageID != "m-2" || j.Reason.Invariant != model.TypedAnswers {
		t.Errorf("%s %+v", j.Verdict, j.Reason)
	}
}

func TestOneWrongAnswerIsFoundInABigHistory(t *testing.T) {
	calls := int(drawn(40_000))
	for seed := range uint64(2) {
		h := busy(seed, calls, calls/100, 10, 60)
		if j := new(checker.Judge).Judge(h); j.Verdict != checker.Pass {
			t.Fatalf("seed %d: %s %s", seed, j.Verdict, j.Limit)
		}
		claims := slices.DeleteFunc(slices.Collect(indexes(h)), func(i int) bool { return !h.Operations[i].Granted() })
		o := &h.Operations[claims[len(claims)/2]]
		o.Answer.Attempts += 7
		j := new(checker.Judge).Judge(h)
		if j.Verdict != checker.Violated || j.Reason.Guilty != o.ID || j.Reason.Invariant != model.AttemptsCountClaims {
			t.Fatalf("seed %d: %s %+v, want operation %d", seed, j.Verdict, j.Reason, o.ID)
		}
	}
}

func indexes(h *model.History) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range h.Operations {
			if !yield(i) {
				return
			}
		}
	}
}

// Whatever a store answers, judging and explaining it ends in a verdict.
func TestNonsenseIsJudgedToo(t *testing.T) {
	judge := checker.Judge{Timeout: 20 * time.Millisecond}
	judged := 0
	for seed := range drawn(500) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		h := simulate(seed, 12, seed%2 == 0)
		for i := range h.Operations {
			o := &h.Operations[i]
			if rnd.IntN(3) == 0 && o.Return != 0 {
				o.Answer.Attempts = rnd.IntN(4)
				o.Answer.State = []model.State{model.Absent, model.Processing, model.Done, model.Dead, "nonsense"}[rnd.IntN(5)]
				o.Answer.LeaseUntil, o.Answer.UpdatedAt = model.Instant(rnd.Int64()), model.NoInstant
				o.Answer.Count, o.Answer.Token = rnd.IntN(5)-1, "\x00\xff\n"
			}
		}
		if h.Validate() != nil {
			continue
		}
		judged++
		r := judge.Report(h, judge.Judge(h))
		if r.Explain() == "" {
			t.Fatalf("seed %d: nothing said", seed)
		}
	}
	if judged == 0 {
		t.Error("nothing was judged")
	}
}

func FuzzJudge(f *testing.F) {
	for _, g := range goldensOf(f) {
		f.Add(g.history)
	}
	judge := checker.Judge{Timeout: 20 * time.Millisecond}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := model.Parse(text)
		if err != nil || len(h.Operations) > 200 {
			return
		}
		r := judge.Report(h, judge.Judge(h))
		for _, c := range r.Explain() {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Fatalf("%q is not escaped in\n%q", c, r.Explain())
			}
		}
	})
}

func TestAReportSurvivesJSON(t *testing.T) {
	for _, g := range goldens(t) {
		r := checker.Check(g.parse(t))
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var again checker.Report
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if len(r.Reached) == 0 {
			r.Reached, again.Reached = nil, nil // an empty table is left out
		}
		if !reflect.DeepEqual(again, r) {
			t.Errorf("%s: read back as\n%+v\nwant\n%+v", g.name, again, r)
		}
		if again.Explain() != r.Explain() {
			t.Errorf("%s: explained otherwise once read back", g.name)
		}
	}
}

// What the gate and other programs read. A new name is fine; one that is missing breaks them.
func TestTheNamesOfAReportStay(t *testing.T) {
	r := checker.Report{
		Scenario: "s", Limit: "l", Bounds: []checker.Bound{{}}, Reached: map[string]int{"m": 1}, Missed: []string{"m"},
		Reasons: []checker.Reason{{Operations: []int{1}}}, NotPromised: []checker.Cell{{Broken: 1, Of: 2}}, Facts: []string{"f"},
		Capabilities: []string{"c"}, Missing: []string{"m"}, Plan: "p", History: "h", Replay: "r", Named: []string{"n"}, Coverage: &checker.Coverage{Missing: []checker.Place{{}}, Rows: []checker.CoverageRow{{}}}, Files: []string{"f"},
	}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	got := names("", tree)
	want := strings.Fields(`schema store scenario verdict limit seed plan history replay files named coverage coverage.places
		coverage.covered coverage.missing coverage.missing.operation coverage.missing.state coverage.missing.fault
		coverage.rows coverage.rows.operation coverage.rows.state coverage.rows.covered coverage.rows.of facts capabilities missing missed
		reasons reasons.invariant reasons.statement reasons.consumer reasons.message_id reasons.sentence reasons.wrong
		reasons.guilty reasons.operations not_promised not_promised.invariant not_promised.why
		not_promised.broken not_promised.of
		counts counts.plans counts.distinct_plans counts.operations counts.keys counts.claims counts.takeovers
		counts.stale_calls counts.unknown_outcomes counts.unseen_replies counts.faults counts.keys_by_porcupine
		counts.overlapped_pairs counts.completions_by_key_of_others counts.completions_by_key_of_others_accepted
		effects effects.none effects.once effects.more effects.amount effects.expected
		bounds bounds.what bounds.plans bounds.below reached reached.m`)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%q is missing", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%q is new: add it here", name)
		}
	}
}

func names(under string, tree any) []string {
	var all []string
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			all = append(all, under+name)
			all = append(all, names(under+name+".", value)...)
		}
	case []any:
		for _, value := range tree {
			all = append(all, names(under, value)...)
		}
	}
	return all
}

// A report from a file need not be one that we wrote.
func TestAForeignReportIsExplainedWithoutItsHistory(t *testing.T) {
	r := checker.Report{Verdict: checker.Violated, History: "cut", Reasons: []checker.Reason{{
		Invariant: model.DoneStaysDone, Statement: "s", Consumer: "c", MessageID: "m", Sentence: "so", Guilty: 9, Operations: []int{-1, 0, 9},
	}}}
	if got := r.Explain(); !strings.HasPrefix(got, "broke DoneStaysDone - s\n  key \"c\"/\"m\": so\n") || !strings.Contains(got, "no history to show") {
		t.Errorf("%s", got)
	}
	r.History = (&model.History{Store: "s"}).Print()
	if got := r.Explain(); !strings.HasPrefix(got, "broke DoneStaysDone") {
		t.Errorf("%s", got)
	}
}

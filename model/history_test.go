package model_test

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce/model"
)

func TestEventsNameOneClaimByItsFirstAnswer(t *testing.T) {
	again := beginAs("n", sec).claimed(1).until(30 * sec).updated(0).token("100")
	h := history(model.Contract{}, calls(
		beginAs("n", 0).claimed(1), again, completeClaim(2, 2*sec).ok(), // one claim, answered twice
		beginAs("n", 40*sec).claimed(2),                                      // another claim under the same nonce
		beginAs("n", sec).key("orders", "m-2").claimed(1).token("100"),       // another key
		beginAs("other", 50*sec).not(done(1, 2*sec)),                         // no claim at all
		begin(0).key("orders", "m-3").claimed(1).token("100"), prune(0).ok(), // a Begin is no BeginAs
	))
	wantGrants := []int{1, 1, 3, 4, 5, 6, 7, 8}
	for i, e := range h.Events() {
		if e.Grants != wantGrants[i] {
			t.Errorf("operation %d grants claim %d, want %d", e.ID, e.Grants, wantGrants[i])
		}
	}
	if e := h.Events()[2]; e.Presented != 1 {
		t.Errorf("the second answer presents claim %d, want 1", e.Presented)
	}
}

func TestEventsCountRowsOnlyIfSomebodyLooked(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), commit(1, sec, 2).ok(), commit(1, 2*sec, 0).ok()))
	rows := func() (all []int) {
		for _, e := range h.Events() {
			all = append(all, e.Rows)
		}
		return all
	}
	if got := rows(); got[0] != -1 || got[1] != 2 || got[2] != 0 {
		t.Errorf("rows %v, want [-1 2 0]", got)
	}
	h.LedgerRead = 0
	if got := rows(); got[1] != -1 || got[2] != -1 {
		t.Errorf("nobody looked, and rows are %v", got)
	}
}

func TestOperationKnowsWhatItsAnswerProves(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), begin(sec).not(processing(1, 30*sec, 0)), begin(sec).lost(), begin(sec).kept(), lookup().found(processing(1, 30*sec, 0))))
	pending := h.Operations[2]
	pending.Return, pending.Closed = 0, 77
	for _, c := range []struct {
		name           string
		o              model.Operation
		known, granted bool
		end            int64
	}{
		{"claimed", h.Operations[0], true, true, 2},
		{"not claimed", h.Operations[1], true, false, 4},
		{"lost", h.Operations[2], false, false, 0},
		{"pending, closed", pending, false, false, 77},
		{"proved not to arrive", h.Operations[3], true, false, 8},
		{"found", h.Operations[4], true, false, 10},
	} {
		if c.o.Known() != c.known || c.o.Granted() != c.granted || c.o.End() != c.end {
			t.Errorf("%s: known %v, granted %v, end %d", c.name, c.o.Known(), c.o.Granted(), c.o.End())
		}
	}
}

func TestAnswerCarriesARecordThereAndBack(t *testing.T) {
	for _, r := range []model.Record{
		{},
		{State: model.Processing, Attempts: 3, LeaseUntil: epoch.Time(), UpdatedAt: epoch.Time(), Token: "t", Reason: "r"},
		{State: model.Done, Result: []byte("x")},
		{State: model.Done, Result: []byte{}},
	} {
		var a model.Answer
		a.SetRecord(r)
		got := a.Record()
		if got.State != r.State || got.Attempts != r.Attempts || !got.LeaseUntil.Equal(r.LeaseUntil) || !got.UpdatedAt.Equal(r.UpdatedAt) ||
			got.Token != r.Token || got.Reason != r.Reason || string(got.Result) != string(r.Result) || (got.Result == nil) != (r.Result == nil) {
			t.Errorf("%+v came back as %+v", r, got)
		}
	}
}

func TestValidateNamesWhatARecorderGotWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*model.History)
		want   string
	}{
		"unknown kind":             {func(h *model.History) { h.Operations[1].Kind = "steal" }, "operation 2: unknown kind"},
		"wrong number":             {func(h *model.History) { h.Operations[1].ID = 7 }, "operation 2: numbered 7"},
		"worker zero":              {func(h *model.History) { h.Operations[0].Worker = 0 }, "operation 1: worker 0"},
		"handle zero":              {func(h *model.History) { h.Operations[0].Handle = 0 }, "operation 1: worker 1, handle 0"},
		"calls out of order":       {func(h *model.History) { h.Operations[1].Call = 1 }, "operation 2: called at 1"},
		"an answer before a call":  {func(h *model.History) { h.Operations[1].Return = 3 }, "operation 2: returned at 3"},
		"a known outcome closes":   {func(h *model.History) { h.Operations[0].Closed = 9 }, "operation 1: closed at 9"},
		"closed before its return": {func(h *model.History) { h.Operations[3].Closed = 7 }, "operation 4: closed at 7"},
		"pending with an answer":   {func(h *model.History) { h.Operations[0].Return = 0 }, "operation 1: never returned"},
		"ok with a refusal":        {func(h *model.History) { h.Operations[0].Answer.Refusal = model.Fenced }, "operation 1: outcome ok"},
		"unknown without refusal":  {func(h *model.History) { h.Operations[3].Answer.Refusal = "" }, "operation 4: outcome unknown"},
		"applied and known":        {func(h *model.History) { h.Operations[0].Applied = true }, "operation 1: marked as applied"},
		"no such fault":            {func(h *model.History) { h.Operations[3].Fault = 2 }, "operation 4: names fault 2 of 1"},
		"a later claim":            {func(h *model.History) { h.Operations[2].Claim = 4 }, "operation 3: presents the claim of operation 4"},
		"its own claim":            {func(h *model.History) { h.Operations[2].Claim = 3 }, "operation 3: presents the claim of operation 3"},
		"a claim never granted":    {func(h *model.History) { h.Operations[2].Claim = 2 }, "operation 3: presents the claim of operation 2, which was granted none"},
		"a claim not yet answered": {func(h *model.History) { h.Operations[0].Return = 90 }, "operation 3: presents the claim of operation 1, which was not answered yet"},
		"a shared moment":          {func(h *model.History) { h.Operations[1].Return = 5 }, "share the moment 5"},
		"a fault without a name":   {func(h *model.History) { h.Faults[0].Name = "" }, "fault 1"},
		"a fault that ends early":  {func(h *model.History) { h.Faults[0].From, h.Faults[0].To = 5, 4 }, "fault 1"},
		"a contract that is none":  {func(h *model.History) { h.Contract.Precision = -1 }, "Precision"},
	} {
		t.Run(name, func(t *testing.T) {
			h := history(model.Contract{}, calls(begin(0).claimed(1), begin(sec).not(processing(1, 30*sec, 0)), completeClaim(1, 2*sec).ok(), prune(0).lost()))
			if err := h.Validate(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			c.change(h)
			if err := h.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

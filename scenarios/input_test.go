package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

func open(context.Context, scenarios.Env) (model.Store, error) {
	return nil, errors.New("opened, although the harness is unfit")
}

// Bad input is refused by the name of the thing, before anything is opened.
func TestAnUnfitHarnessIsRefusedByName(t *testing.T) {
	inbox := func(context.Context, scenarios.Env) (model.Inbox, error) { return nil, nil }
	for name, c := range map[string]struct {
		h    scenarios.Harness
		want string
	}{
		"no name":            {scenarios.Harness{Open: open}, "Name is empty"},
		"no door":            {scenarios.Harness{Name: "h"}, "none of Open, OpenInbox, OpenConsumer is set"},
		"two doors":          {scenarios.Harness{Name: "h", Open: open, OpenInbox: inbox}, "2 of Open, OpenInbox, OpenConsumer are set"},
		"uncounted effects":  {scenarios.Harness{Name: "h", OpenInbox: inbox}, "judged by their effects, and Effects is not set"},
		"short window":       {scenarios.Harness{Name: "h", Open: open, Contract: model.Contract{Window: time.Hour}}, "Window 1h0m0s is not longer than Redelivery 24h0m0s"},
		"negative precision": {scenarios.Harness{Name: "h", Open: open, Contract: model.Contract{Precision: -1}}, "Precision -1ns is negative"},
		"negative lease":     {scenarios.Harness{Name: "h", Open: open, Contract: model.Contract{MinLease: -1}}, "MinLease -1ns is negative"},
		"waiver of nothing":  {scenarios.Harness{Name: "h", Open: open, Contract: model.Contract{Waivers: []model.Waiver{{Invariant: "Nonsense", Reason: "r"}}}}, `"Nonsense", which is no invariant`},
		"waiver without why": {scenarios.Harness{Name: "h", Open: open, Contract: model.Contract{Waivers: []model.Waiver{{Invariant: model.NoEarlySteal}}}}, "gives no reason"},
		"upstream":           {scenarios.Harness{Name: "h", Open: open, Upstream: "localhost"}, `Upstream "localhost" is not host:port`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.h, c.want) })
	}
}

func refused(t *testing.T, h scenarios.Harness, want string, opts ...scenarios.Option) {
	t.Helper()
	_, err := scenarios.Explore(t.Context(), h, opts...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want one that says %q", err, want)
	}
}

func TestABadOptionOrVariableIsRefusedByNameAndValue(t *testing.T) {
	refused(t, memoryHarness(), "Budget is -1ns", scenarios.Budget(-1))
	refused(t, memoryHarness(), "Plans is 0", scenarios.Plans(0))
	refused(t, memoryHarness(), `"Fencing" is no capability`, scenarios.Require("Fencing"))
	for name, c := range map[string][2]string{
		"EFFECTONCE_SEED":    {"twelve", `EFFECTONCE_SEED is "twelve"`},
		"EFFECTONCE_BUDGET":  {"10", `EFFECTONCE_BUDGET is "10"`},
		"EFFECTONCE_PLANS":   {"-3", "EFFECTONCE_PLANS is -3"},
		"EFFECTONCE_SEDE":    {"12", "EFFECTONCE_SEDE is no setting"},
		"EFFECTONCE_PLAN":    {"no-such-file", "neither a plan nor a file"},
		"EFFECTONCE_HISTORY": {"no-such-file", "EFFECTONCE_HISTORY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, c[0])
			refused(t, memoryHarness(), c[1])
		})
	}
}

func TestACapabilityThatAWrapperHidesFailsWhatRequiresIt(t *testing.T) {
	h := memoryHarness()
	inner := h.Open
	h.Open = func(ctx context.Context, env scenarios.Env) (model.Store, error) {
		s, err := inner(ctx, env)
		return struct{ model.Store }{s}, err
	}
	refused(t, h, "no Fencer, which is required", scenarios.Require("Fencer"))
}

func TestEffectsThatNobodyCouldCountAreRefused(t *testing.T) {
	h := memoryHarness()
	h.Effects = nil
	refused(t, h, "Effects is not set")
}

func TestNamespacesThatAreOneAreRefused(t *testing.T) {
	store := broken.NewMemory(broken.None)
	h := scenarios.Harness{
		Name:    "one map for all",
		Open:    func(context.Context, scenarios.Env) (model.Store, error) { return store, nil },
		Effects: func(context.Context, string) ([]model.Applied, error) { return store.Effects(), nil },
	}
	refused(t, h, "let Open use Env.Namespace, or set Contract.SharedNamespace")
	h.Contract.SharedNamespace = true
	for range 2 { // what the first run left must not be met by the second
		if r := explore(t, h, scenarios.Plans(300)); r.Verdict == checker.Violated {
			t.Fatal(r.Explain(), r.Plan)
		}
	}
}

func TestAWaiverCountsUntilItRunsOut(t *testing.T) {
	h := brokenMemory(broken.NeverPruned)
	h.Contract.Waivers = []model.Waiver{{Invariant: model.ForgottenAfterWindow, Reason: "pruned by hand, each spring"}}
	r := explore(t, h, scenarios.Seed(1), scenarios.Plans(300), scenarios.Only(scenarios.Stepped))
	if r.Verdict == checker.Violated || !strings.Contains(fmt.Sprint(r.NotPromised), "each spring") {
		t.Fatalf("waived: %s, not promised %v\n%s", r.Verdict, r.NotPromised, r.Explain())
	}
	if len(r.Waivers) != 1 || r.Waivers[0].Invariant != model.ForgottenAfterWindow || r.Waivers[0].Reason != "pruned by hand, each spring" {
		t.Errorf("the report's waivers are %v", r.Waivers)
	}
	h.Contract.Waivers[0].Until = time.Date(2020, time.March, 1, 0, 0, 0, 0, time.UTC)
	r = explore(t, h, scenarios.Seed(1))
	if r.Verdict != checker.Violated || len(r.Waivers) != 0 || !strings.Contains(fmt.Sprint(r.NotPromised), "ran out on 2020-03-01") {
		t.Fatalf("run out: %s, not promised %v, waivers %v", r.Verdict, r.NotPromised, r.Waivers)
	}
}

// Right stores that were accused once, each for what its facts allow.
func TestFactsThatAllowMoreAreHeeded(t *testing.T) {
	stores := scenarios.PerNamespace(func() *broken.Memory {
		m := broken.NewMemory(broken.None)
		m.PruneLimit = 1
		return m
	})
	few := brokenMemory(broken.None)
	few.Name, few.Contract.PruneAtMost = "prunes at most one", 1
	few.Open = func(_ context.Context, env scenarios.Env) (model.Store, error) {
		return struct{ model.Store }{stores.Get(env.Namespace)}, nil // with a Reader it would be known what was removed
	}
	numbers := brokenMemory(broken.None)
	numbers.Name, numbers.Contract.AcceptsKey = "numbers only", func(_, id string) error {
		_, err := strconv.ParseUint(id, 10, 64)
		return err
	}
	careless := brokenMemory(broken.None)
	careless.Name, careless.Outcome = "classifier without nil", func(error) model.Outcome { return model.Unknown }
	for _, h := range []scenarios.Harness{few, numbers, careless} {
		t.Run(h.Name, func(t *testing.T) {
			r := explore(t, h, scenarios.Plans(300))
			if r.Verdict == checker.Violated {
				t.Fatal(r.Explain(), r.Plan)
			}
			if again := "claimed again after a forgetting"; r.Reached[again] == 0 { // or no run of it could ever pass
				t.Errorf("of %d plans none came to %q", r.Counts.Plans, again)
			}
		})
	}
}

func TestAServerThatIsNotThereIsToldWithinSeconds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := scenarios.Harness{Name: "h", Open: open, Upstream: l.Addr().String()}
	l.Close()
	refused(t, h, "the server cannot be reached")
}

func TestAWrongPasswordIsToldAndNeverPrinted(t *testing.T) {
	s := postgresServer.Need(t)
	const secret = "swordfish-93"
	dsn := "postgres://nobody:" + secret + "@" + s.Addr + "/no_such_database"
	h := scenarios.Harness{
		Name: "h", Upstream: s.Addr,
		Prepare: func(ctx context.Context, namespace string) error { return postgres.Prepare(ctx, dsn, namespace) },
		Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			return postgres.OpenWorker(ctx, dsn, env.Namespace, env.Addr)
		},
	}
	_, err := scenarios.Explore(t.Context(), h)
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Fatalf("error %v, want one without the password", err)
	}
}

func TestAHistoryThatWasChangedByHandIsRefusedWithItsLine(t *testing.T) {
	r := explore(t, brokenMemory(broken.TakeoverTooLate), scenarios.Seed(1))
	broken := strings.Replace(r.History, "op 2 ", "op 3 ", 1)
	if broken == r.History {
		t.Fatal("the history has no second operation to break")
	}
	if _, err := scenarios.Judge([]byte(broken), model.Contract{}); err == nil || !strings.Contains(err.Error(), "operation 2") {
		t.Fatalf("error %v, want one that names operation 2", err)
	}
	again, err := scenarios.Judge([]byte(r.History), model.Contract{})
	if err != nil || again.Reasons[0].Invariant != r.Reasons[0].Invariant {
		t.Fatalf("judged again: %v, %v; want %s as before", again.Reasons, err, r.Reasons[0].Invariant)
	}
}

func TestAStoreThatRefusesBadInputIsNotAskedForItByAPlan(t *testing.T) {
	// The memory store refuses a lease of nothing and empty ids; a plan that holds one is run, and judged.
	for _, plan := range []string{
		`effectonce plan 1; worker w1 zone=0; key k1 "orders" "m"; w1 begin k1; end 1`,
		`effectonce plan 1; worker w1 zone=0; key k1 "orders" ""; w1 begin k1 lease=1s; w1 complete k1; end 2`,
		`effectonce plan 1; worker w1 zone=0; key k1 "" "m"; w1 begin k1 lease=1s; end 1`,
	} {
		t.Setenv("EFFECTONCE_PLAN", plan)
		if r := explore(t, memoryHarness()); len(r.Reasons) != 0 || !strings.Contains(r.History, "refusal=refused") {
			t.Errorf("%s\n%s%s", plan, r.Explain(), r.History)
		}
	}
}

func TestOutHoldsPlanHistoryAndReportOfEveryRun(t *testing.T) {
	t.Setenv("EFFECTONCE_OUT", "") // it would have the last word
	dir := t.TempDir()
	r := explore(t, brokenMemory(broken.DoneForgotten), scenarios.Out(dir), scenarios.Seed(3))
	for _, name := range []string{"plan.txt", "history.txt", "report.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "home-made_done-forgotten", name))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	explore(t, memoryHarness(), scenarios.Out(dir), scenarios.Plans(300))
	if _, err := os.Stat(filepath.Join(dir, memoryHarness().Name, "report.json")); err != nil {
		t.Errorf("a run that passed left no report: %v", err)
	}
	if len(r.Files) != 3 {
		t.Errorf("the report names %v", r.Files)
	}
}

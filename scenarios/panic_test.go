package scenarios_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// panics is a store whose second completion finds what its maker never thought of.
type panics struct {
	model.Store
	completed int
}

func (p *panics) Complete(ctx context.Context, consumer, id string, now time.Time) error {
	if p.completed++; p.completed > 1 {
		var none map[string]int
		none[id]++
	}
	return p.Store.Complete(ctx, consumer, id, now)
}

// A panic ends the test binary, so it happens in one of its own.
const inThere = "PANICS_IN_THERE"

func TestAPanicOfTheStoreTellsThePlan(t *testing.T) {
	tier := scenarios.Tier(os.Getenv(inThere))
	if tier != "" {
		open := memoryHarness().Open
		scenarios.Test(t, scenarios.Harness{Name: "panics", Open: func(ctx context.Context, env scenarios.Env) (model.Store, error) {
			s, err := open(ctx, env)
			return &panics{Store: struct{ model.Store }{s}}, err
		}}, scenarios.Only(tier), scenarios.Seed(1))
		return
	}
	for _, tier := range []scenarios.Tier{scenarios.Stepped, scenarios.Real} {
		own := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPanicOfTheStoreTellsThePlan$", "-test.timeout=1m")
		own.Env = append(os.Environ(), inThere+"="+string(tier))
		out, err := own.CombinedOutput()
		told := string(out)
		if err == nil || !strings.Contains(told, "assignment to entry in nil map") || !strings.Contains(told, ").Complete(") {
			t.Fatalf("%s: %v, want the panic and where it was:\n%s", tier, err, told)
		}
		plan, found := betweenWords(told, "EFFECTONCE_PLAN='", "'")
		if _, err := scenarios.ParsePlan(plan); !found || err != nil {
			t.Errorf("%s: no plan that can be run again (%v):\n%s", tier, err, told)
		}
	}
}

package scenarios_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/scenarios"
)

// BenchmarkReal is the real tier: plans a second, and pairs of calls on one key that were open at once, drawn, run and
// judged. On a server each worker has its own proxy.
func BenchmarkReal(b *testing.B) {
	for name, open := range map[string]func(testing.TB) scenarios.Harness{
		"memory":   func(testing.TB) scenarios.Harness { return memoryHarness() },
		"redis":    redisHarness,
		"postgres": postgresHarness,
	} {
		b.Run(name, func(b *testing.B) {
			h := open(b)
			b.ResetTimer()
			r, err := scenarios.Explore(b.Context(), h, scenarios.Only(scenarios.Real),
				scenarios.Plans(plansOfRealShare*b.N), scenarios.Budget(time.Hour), scenarios.Seed(1))
			if err != nil {
				b.Fatal(err)
			}
			if r.Verdict == checker.Violated {
				b.Fatal(r.Explain())
			}
			b.ReportMetric(float64(r.Counts.Plans)/b.Elapsed().Seconds(), "plans/s")
			b.ReportMetric(float64(r.Counts.Overlaps)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// plansOfRealShare: of so many plans that are asked for, one is of the real tier.
const plansOfRealShare = 5

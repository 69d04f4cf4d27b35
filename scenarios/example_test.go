package scenarios_test

import (
	"context"
	"fmt"

	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// Explore judges a store in a program that is no test. This one offers the three methods and nothing more, so what
// takes more is not promised, and the report says so.
func ExampleExplore() {
	harness := scenarios.Harness{
		Name: "shop",
		Open: scenarios.Shared(func() model.Store {
			return struct{ model.Store }{memory.New(memory.Options{}).Open()}
		}),
	}

	report, err := scenarios.Explore(context.Background(), harness,
		scenarios.Seed(1), scenarios.Plans(500), scenarios.Only(scenarios.Stepped))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Store, report.Verdict, report.Counts.Plans > 1, report.Reached["redelivery met DONE"] > 0)
	for _, cell := range report.NotPromised {
		fmt.Println("not promised:", cell.Invariant, "-", cell.Why)
	}
	// Output:
	// shop pass true true
	// not promised: StaleClaimRefused - no Fencer
	// not promised: StaleClaimRefusedAfterForgetting - no Fencer
	// not promised: AtMostOneEffect - no EffectCommitter
	// not promised: NoLostEffect - no EffectCommitter
	// not promised: BalanceKept - no EffectCommitter
	// not promised: SurvivesRestart - this version restarts no server
}

// Judge reads a history that any program may have recorded, in any language. Here two workers were told that they own
// one message, 20 s before the first one's lease was over.
func ExampleJudge() {
	history := `effectonce history 1
store "shop"
scenario "recorded in staging"
seed 0
epoch 2024-03-01T12:00:00Z
contract
capabilities
op 1 w1/1 begin "orders" "m-1" now=0s lease=30s call=1 return=2 -> ok claimed state="PROCESSING" attempts=1 lease-until=30s updated-at=0s
op 2 w2/2 begin "orders" "m-1" now=10s lease=30s call=3 return=4 -> ok claimed state="PROCESSING" attempts=2 lease-until=40s updated-at=10s
end 2
`
	report, err := scenarios.Judge([]byte(history), model.Contract{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report.Explain())
	// Output:
	// broke NoEarlySteal - a claim is not taken over before its lease ends
	//   key "orders"/"m-1": #2 begin by w2 was answered claimed attempts=2 lease-until=40s updated-at=10s, but the record was PROCESSING, claimed by #1, attempts 1, lease until 30s
	//
	//    #1  w1  begin lease=30s  claimed attempts=1 lease-until=30s updated-at=0s   at 0s
	//    #2  w2  begin lease=30s  claimed attempts=2 lease-until=40s updated-at=10s  at 10s  <- claimed before the lease was over
}

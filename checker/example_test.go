package checker_test

import (
	"fmt"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// The reply to the first Begin was lost. The checker finds out whether some outcome of it explains the rest: a second
// attempt is explained if it took effect, a third one by nothing.
func ExampleCheck() {
	start := time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)
	later, key := start.Add(40*time.Second), model.Key{Consumer: "orders", ID: "m-1"}
	for _, attempts := range []int{1, 2, 3} {
		told := model.Answer{Outcome: model.OK, Yes: true}
		told.SetRecord(model.Record{State: model.Processing, Attempts: attempts, LeaseUntil: later.Add(30 * time.Second), UpdatedAt: later})
		report := checker.Check(&model.History{
			Store: "shop", Epoch: model.InstantOf(start),
			Operations: []model.Operation{
				{ID: 1, Worker: 1, Handle: 1, Kind: model.Begin, Key: key, Now: model.InstantOf(start), Lease: 30 * time.Second, Call: 1},
				{ID: 2, Worker: 2, Handle: 2, Kind: model.Begin, Key: key, Now: model.InstantOf(later), Lease: 30 * time.Second, Call: 2, Return: 3, Answer: told},
			},
		})
		fmt.Println("attempts", attempts, report.Verdict)
		for _, reason := range report.Reasons {
			fmt.Println(reason.Invariant, "-", reason.Statement)
		}
	}
	// Output:
	// attempts 1 pass
	// attempts 2 pass
	// attempts 3 violated
	// AttemptsCountClaims - attempts is 1 at the first claim and one more at each takeover
}

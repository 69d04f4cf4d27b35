// Command verify judges the store outside of go test, as a job or a release step does. Its exit codes are the gate's.
package main

import (
	"context"
	"fmt"
	"os"

	"example.com/dedup"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

func record(r dedup.Record) model.Record {
	return model.Record{State: model.State(r.State), Attempts: r.Attempts, LeaseUntil: r.LeaseUntil, UpdatedAt: r.UpdatedAt}
}

func main() {
	report, err := scenarios.Explore(context.Background(), scenarios.Harness{
		Name: "dedup",
		Open: scenarios.Shared(func() model.Store { return adapters.From(dedup.New(), record) }),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%s: %s, %d plans, seed %d\n", report.Store, report.Verdict, report.Counts.Plans, report.Seed)
	switch report.Verdict {
	case checker.Pass:
		return
	case checker.Violated:
		fmt.Print(report.Explain())
		os.Exit(1)
	case checker.Undecided:
		fmt.Println(report.Limit)
		os.Exit(3)
	default:
		fmt.Println(report.Limit)
		os.Exit(4)
	}
}

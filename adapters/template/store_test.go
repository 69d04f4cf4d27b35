package template

import (
	"testing"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

func TestStore(t *testing.T) {
	scenarios.Test(t, scenarios.Harness{
		// Name is what the report, and the gate's -require, call it.
		Name: "template",
		// Contract states what is true of the store; the zero value is the strictest. A column in microseconds would
		// be Precision: time.Microsecond.
		Contract: model.Contract{},
		// Open makes a worker's handle. Shared does for a store in the process; a store on a server dials env.Addr and
		// keeps namespaces apart: see the second example of the README.
		Open: scenarios.Shared(func() model.Store { return adapters.From(New(), record) }),
	})
}

// record translates a row. What a store does not keep stays zero, and the Contract says so (NoAttempts, NoTimes).
func record(r Row) model.Record {
	state := map[Status]model.State{Unknown: model.Absent, InWork: model.Processing, Done: model.Done}[r.Status]
	return model.Record{State: state, Attempts: r.Tries, LeaseUntil: r.Until, UpdatedAt: r.Changed}
}

package consume_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/model"
)

// A broker delivers one message three times; the second delivery comes while the first is at work.
func Example() {
	ctx := context.Background()
	space := memory.New(memory.Options{})
	loop, err := consume.New(space.Open(), "billing", consume.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}

	result, err := loop.Deliver(ctx, "order-17", func(ctx context.Context, claim consume.Claim) error {
		fmt.Println("charging, attempt", claim.Record.Attempts)
		_, err := loop.Deliver(ctx, "order-17", func(context.Context, consume.Claim) error { return nil })
		fmt.Println("acknowledge the second:", err == nil, "in flight:", errors.Is(err, consume.ErrInFlight))
		return nil
	})
	fmt.Println("applied:", result == model.ResultApplied, err)

	result, err = loop.Deliver(ctx, "order-17", func(context.Context, consume.Claim) error { return nil })
	fmt.Println("duplicate:", result == model.ResultDuplicate, err)
	// Output:
	// charging, attempt 1
	// acknowledge the second: false in flight: true
	// applied: true <nil>
	// duplicate: true <nil>
}

// Effect and DONE are committed together, so a repeat after any crash finds both or neither.
func ExampleLoop_DeliverEffect() {
	ctx := context.Background()
	space := memory.New(memory.Options{})
	loop, err := consume.New(space.Open(), "billing", consume.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, err := loop.DeliverEffect(ctx, "order-17", func(_ context.Context, claim consume.Claim) (model.Effect, error) {
			return model.Effect{ID: claim.EffectKey(), Account: "alice", Amount: 5}, nil
		})
		fmt.Println(err, len(space.Effects()))
	}
	// Output:
	// <nil> 1
	// <nil> 1
	// <nil> 1
}

// Duplicates get the result of the run that was done.
func ExampleLoop_DeliverResult() {
	ctx := context.Background()
	loop, err := consume.New(memory.New(memory.Options{}).Open(), "billing", consume.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for attempt := range 2 {
		receipt, result, err := loop.DeliverResult(ctx, "order-17", func(context.Context, consume.Claim) ([]byte, error) {
			return fmt.Appendf(nil, "receipt %d", attempt), nil
		})
		fmt.Printf("%s, duplicate: %v, %v\n", receipt, result == model.ResultDuplicate, err)
	}
	// Output:
	// receipt 0, duplicate: false, <nil>
	// receipt 0, duplicate: true, <nil>
}

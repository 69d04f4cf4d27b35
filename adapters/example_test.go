package adapters_test

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/model"
)

// lock is a record of one's own, and locks a store over it that can do more than the three methods.
type (
	lock  struct{ Fence int64 }
	locks struct{}
)

func (locks) Begin(_ context.Context, _, _ string, _ time.Time, _ time.Duration) (lock, bool, error) {
	return lock{Fence: 41}, true, nil
}

func (locks) Complete(context.Context, string, string, time.Time) error { return nil }

func (locks) Prune(context.Context, time.Time) (int, error) { return 0, nil }

func (locks) CompleteClaim(_ context.Context, _, _ string, claim model.Record, _ time.Time) error {
	fmt.Println("completed by the claim", claim.Token)
	return nil
}

// From translates the record, and the store's other interfaces stand beside it: what it can is found by type
// assertion.
func ExampleFrom() {
	own := locks{}
	store := struct {
		model.Store
		model.Fencer
	}{adapters.From(own, func(l lock) model.Record {
		return model.Record{State: model.Processing, Token: fmt.Sprint(l.Fence)}
	}), own}

	ctx, now := context.Background(), time.Unix(60, 0)
	claim, claimed, _ := store.Begin(ctx, "billing", "m-1", now, 30*time.Second)
	fmt.Println(claimed, claim.State)
	fmt.Println(store.CompleteClaim(ctx, "billing", "m-1", claim, now))
	// Output:
	// true PROCESSING
	// completed by the claim 41
	// <nil>
}

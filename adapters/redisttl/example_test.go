package redisttl_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/effectonce/effectonce/adapters/redisttl"
)

func Example() {
	server, err := miniredis.Run() // in place of a real one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	ctx := context.Background()
	store, err := redisttl.Open(ctx, "redis://"+server.Addr(), redisttl.Options{Namespace: "orders", Window: 48 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	claim, claimed, err := store.Begin(ctx, "billing", "m-1", time.Now(), 30*time.Second)
	fmt.Println(claimed, claim.State, err)
	fmt.Println(store.CompleteClaim(ctx, "billing", "m-1", claim, time.Now()))
	again, claimed, err := store.Begin(ctx, "billing", "m-1", time.Now(), 30*time.Second)
	fmt.Println(claimed, again.State, err)
	// Output:
	// true PROCESSING <nil>
	// <nil>
	// false DONE <nil>
}

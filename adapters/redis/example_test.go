package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/effectonce/effectonce/adapters/redis"
)

func Example() {
	server, err := miniredis.Run() // in place of a real one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	ctx := context.Background()
	store, err := redis.Open(ctx, "redis://"+server.Addr(), redis.Options{Namespace: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	now := time.Now()
	claim, claimed, err := store.BeginAs(ctx, "billing", "m-1", "delivery-1", now, 30*time.Second)
	fmt.Println(claimed, claim.State, claim.Attempts, err)
	fmt.Println(store.CompleteClaim(ctx, "billing", "m-1", claim, now.Add(time.Second)))
	again, claimed, err := store.Begin(ctx, "billing", "m-1", now.Add(time.Hour), 30*time.Second)
	fmt.Println(claimed, again.State, err)
	// Output:
	// true PROCESSING 1 <nil>
	// <nil>
	// false DONE <nil>
}

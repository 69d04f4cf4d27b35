package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

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

// A client of one's own, here of a cluster, must not repeat a command.
func ExampleNew() {
	ctx := context.Background()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:                 []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"},
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	store, err := redis.New(client, redis.Options{Namespace: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.Warm(ctx); err != nil { // before the first message
		fmt.Println(err)
		return
	}
	claim, claimed, err := store.Begin(ctx, "billing", "m-1", time.Now(), 30*time.Second)
	fmt.Println(claimed, claim.State, err)
}

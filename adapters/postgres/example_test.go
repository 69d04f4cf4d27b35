package postgres_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/adapters/consume"
	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

// The consume loop claims the message; its handler commits the business write and DONE in one transaction.
func Example() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil { // or what MigrationSQL says, by a migration tool
		fmt.Println(err)
		return
	}
	loop, err := consume.New(store, "billing", consume.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := loop.DeliverCommitted(ctx, "order-17", func(ctx context.Context, c consume.Claim) error {
		claim := postgres.Claim{Consumer: c.Consumer, MessageID: c.MessageID, Record: c.Record, Now: c.Now()}
		return store.CommitTx(ctx, claim, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", c.MessageID)
			return err
		})
	})
	if err != nil {
		fmt.Println("do not acknowledge:", err)
		return
	}
	fmt.Println("acknowledge; a duplicate:", result == model.ResultDuplicate)
}

// Where the whole effect is written to this database, an inbox does without a claim.
func ExampleInbox() {
	ctx := context.Background()
	inbox, err := postgres.OpenInbox(ctx, os.Getenv("DATABASE_URL"), postgres.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inbox.Close()
	if err := inbox.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	applied, err := inbox.ApplyTx(ctx, "billing", "order-18", time.Now(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", "order-18")
		return err
	})
	fmt.Println(applied, err) // true <nil>; for every later delivery false <nil>

	// Now and then: marks that no redelivery can ask for any more.
	pruned, err := inbox.Prune(ctx, time.Now().Add(-model.DefaultWindow))
	fmt.Println(pruned, err)
}

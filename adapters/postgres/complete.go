package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Complete makes a claimed message DONE, whoever claimed it; see [model.Store]. DONE stays as it is, with its
// UpdatedAt; no record is [model.ErrNotFound]. A worker that was overtaken completes its successor's claim with it:
// CompleteClaim does not.
func (s *Store) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "complete"
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return refused(op, err)
	}
	found, err := s.update(ctx, op, s.sql.complete, consumer, messageID, micros(now))
	if err == nil && !found {
		return fmt.Errorf("postgres: %s: %w", op, model.ErrNotFound)
	}
	return err
}

// CompleteClaim makes a message DONE for the claim that is current, also past its lease if nobody took over; see
// [model.Fencer]. Any other claim, and one whose record was pruned, gets [model.ErrFenced].
func (s *Store) CompleteClaim(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time) error {
	const op = "complete claim"
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return refused(op, err)
	}
	token, ok := tokenOf(claim)
	if !ok {
		return noToken(op, claim)
	}
	found, err := s.update(ctx, op, s.sql.completeClaim, consumer, messageID, micros(now), token)
	if err == nil && !found {
		return fenced(op, claim)
	}
	return err
}

func (s *Store) update(ctx context.Context, op, statement string, args ...any) (found bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(isolationSQL)
	batch.Queue(statement, args...)
	err = s.send(ctx, op, batch, func(results pgx.BatchResults) error {
		tag, err := results.Exec()
		found = tag.RowsAffected() == 1
		return err
	})
	return found, err
}

func checkCompletion(consumer, messageID string, now time.Time) error {
	if err := checkKey(consumer, messageID); err != nil {
		return err
	}
	return checkNow(now)
}

func noToken(op string, claim model.Record) error {
	return fmt.Errorf("postgres: %s: %q is no token of this store: %w", op, claim.Token, model.ErrFenced)
}

func fenced(op string, claim model.Record) error {
	return fmt.Errorf("postgres: %s: claim %s: %w", op, claim.Token, model.ErrFenced)
}

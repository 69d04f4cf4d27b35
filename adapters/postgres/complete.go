package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Complete makes a claimed message DONE, whoever claimed it, also one that was released; see [model.Store]. DONE
// stays as it is, with its UpdatedAt; no record is [model.ErrNotFound], a dead letter [model.ErrFenced]. A worker that
// was overtaken completes its successor's claim with it: CompleteClaim does not.
func (s *Store) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "complete"
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return refused(op, err)
	}
	state, err := s.update(ctx, op, s.sql.complete, consumer, messageID, micros(now))
	switch {
	case err != nil:
		return err
	case state == model.Absent:
		return fmt.Errorf("postgres: %s: %w", op, model.ErrNotFound)
	case state == model.Dead:
		return fmt.Errorf("postgres: %s: the record is DEAD: %w", op, model.ErrFenced)
	}
	return nil
}

// CompleteClaim makes a message DONE for the claim that is current, also past its lease if nobody took over; see
// [model.Fencer]. Any other claim, one that was released or buried, and one whose record was pruned, gets
// [model.ErrFenced].
func (s *Store) CompleteClaim(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time) error {
	return s.completeClaim(ctx, "complete claim", consumer, messageID, claim, now, nil)
}

// CompleteResult is CompleteClaim that keeps a result, byte for byte, nil and empty apart; see [model.ResultKeeper].
// A refused Begin and Lookup bring it back. What a claim completed stays: repeated, also with another result, it is ok
// and changes nothing. More than MaxResultBytes are refused.
func (s *Store) CompleteResult(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, result []byte) error {
	const op = "complete result"
	if len(result) > MaxResultBytes {
		return refused(op, fmt.Errorf("result has %d bytes, the limit is %d", len(result), MaxResultBytes))
	}
	return s.completeClaim(ctx, op, consumer, messageID, claim, now, result)
}

func (s *Store) completeClaim(ctx context.Context, op, consumer, messageID string, claim model.Record, now time.Time, result []byte) error {
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return refused(op, err)
	}
	return s.asOwner(ctx, op, s.sql.completeClaim, consumer, messageID, claim, micros(now), result)
}

// asOwner runs one statement that answers no row unless the claim may do what it does.
func (s *Store) asOwner(ctx context.Context, op, statement, consumer, messageID string, claim model.Record, args ...any) error {
	token, ok := tokenOf(claim)
	if !ok {
		return noToken(op, claim)
	}
	state, err := s.update(ctx, op, statement, append([]any{consumer, messageID, token}, args...)...)
	if err == nil && state == model.Absent {
		return fenced(op, claim)
	}
	return err
}

// update answers the state that the statement left behind; Absent if it found nothing to do.
func (s *Store) update(ctx context.Context, op, statement string, args ...any) (model.State, error) {
	batch := &pgx.Batch{}
	batch.Queue(isolationSQL)
	batch.Queue(statement, args...)
	var state string
	err := s.send(ctx, op, batch, func(results pgx.BatchResults) error {
		err := results.QueryRow().Scan(&state)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return model.State(state), err
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

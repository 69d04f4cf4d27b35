package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Release gives a claim back: the message stays PROCESSING and is claimable from visibleAt on, at once if that is
// past or zero; see [model.Releaser]. Later than the lease's end is allowed, and so is a lease that is over. The record
// that refuses a Begin until then carries the reason, and visibleAt as its LeaseUntil.
//
// With it the claim is over. Its owner may release again, and the last word counts; whatever else it tries by that
// claim (CompleteClaim, CommitTx, Extend, Bury) is [model.ErrFenced]. So a heartbeat that comes late cannot take the
// message back from the next worker.
//
// A reason is UTF-8 without NUL and at most MaxReasonBytes long, the empty one included. It stays with the record,
// through later claims, until another is told or the message is DONE.
func (s *Store) Release(ctx context.Context, consumer, messageID string, claim model.Record, now, visibleAt time.Time, reason string) error {
	const op = "release"
	if err := errors.Join(checkCompletion(consumer, messageID, now), checkReason(reason)); err != nil {
		return refused(op, err)
	}
	if visibleAt.IsZero() {
		visibleAt = micros(now)
	}
	visible := microsUp(visibleAt)
	if err := errors.Join(checkInstant("visibleAt", visibleAt), checkInstant("visibleAt", visible)); err != nil {
		return refused(op, err)
	}
	return s.asOwner(ctx, op, s.sql.release, consumer, messageID, claim, micros(now), visible, reason)
}

// Extend prolongs a claim to now+lease and answers its record; see [model.Extender]. The later of the two ends counts,
// so an Extend never shortens a lease, and heartbeats may overtake each other. The token and UpdatedAt stay. An owner
// whose lease is over gets it back if nobody took over.
//
// A claim that was taken over, completed, released or buried is [model.ErrFenced]: its owner should stop working.
func (s *Store) Extend(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	const op = "extend"
	if err := checkKey(consumer, messageID); err != nil {
		return model.Record{}, refused(op, err)
	}
	_, until, err := span(now, lease)
	if err != nil {
		return model.Record{}, refused(op, err)
	}
	token, ok := tokenOf(claim)
	if !ok {
		return model.Record{}, noToken(op, claim)
	}
	batch := &pgx.Batch{}
	batch.Queue(isolationSQL)
	batch.Queue(s.sql.extend, consumer, messageID, token, until)
	var answer row
	found := false
	err = s.send(ctx, op, batch, func(results pgx.BatchResults) error {
		err := answer.scan(results.QueryRow())
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	switch {
	case err != nil:
		return model.Record{}, err
	case !found:
		return model.Record{}, fenced(op, claim)
	}
	return answer.record(), nil
}

// Bury gives up on a message: it is DEAD, never claimed and never pruned, until [Store.Replay]; see
// [model.DeadLetterer]. It takes the current claim, also past its lease, and is ok again for the claim that buried:
// the first reason and UpdatedAt stay. Every other claim is [model.ErrFenced]. A reason is held to Release's limits.
func (s *Store) Bury(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, reason string) error {
	const op = "bury"
	if err := errors.Join(checkCompletion(consumer, messageID, now), checkReason(reason)); err != nil {
		return refused(op, err)
	}
	return s.asOwner(ctx, op, s.sql.bury, consumer, messageID, claim, micros(now), reason)
}

// Replay opens a dead letter again: PROCESSING, claimable from now on, with its attempts and its reason, and with no
// owner: every earlier claim is stale; see [model.DeadLetterer]. A record that is not DEAD is [ErrNotDead], no record
// is [model.ErrNotFound]; so of two who replay the same one, one is refused.
func (s *Store) Replay(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "replay"
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return refused(op, err)
	}
	batch := &pgx.Batch{}
	batch.Queue(isolationSQL)
	batch.Queue(s.sql.replay, consumer, messageID, micros(now))
	batch.Queue(s.sql.lookup, consumer, messageID)
	var replayed, exists bool
	err := s.send(ctx, op, batch, func(results pgx.BatchResults) error {
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		replayed = tag.RowsAffected() == 1
		tag, err = results.Exec()
		exists = tag.RowsAffected() == 1
		return err
	})
	switch {
	case err != nil || replayed:
		return err
	case !exists:
		return fmt.Errorf("postgres: %s: %w", op, model.ErrNotFound)
	}
	return model.NoEffect(fmt.Errorf("postgres: %s: %w", op, ErrNotDead))
}

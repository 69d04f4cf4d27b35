package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Claim names one claim of one message, for [Store.CommitTx].
type Claim struct {
	Consumer, MessageID string
	// Record is what Begin answered; its Token is the claim.
	Record model.Record
	// Now is the caller's clock at the completion.
	Now time.Time
	_   struct{}
}

// CommitTx runs work and makes the claim's message DONE in one transaction: both or neither. The claim is fenced
// first, which locks the record until the end, so work runs only under the current claim, and at most once with
// effect.
//
//   - nil: committed, or DONE by this very claim before; then work did not run.
//   - [model.ErrFenced], [model.ErrNotFound]: the claim is not current any more; work did not run.
//   - work's own error, wrapped: rolled back.
//   - anything else: as [model.OutcomeOf] says. A lost answer to the commit is Unknown: call again with the same
//     claim, or let the lease run out.
//
// work gets the transaction for its own statements. It must not end it (Commit and Rollback answer an error;
// savepoints by Begin are fine) nor use it after its return. Its context is ctx; it should not wait for anything but
// the database, since a takeover of the key waits for it: see [Options].
func (s *Store) CommitTx(ctx context.Context, claim Claim, work func(pgx.Tx) error) error {
	const op = "commit"
	if work == nil {
		return refused(op, errors.New("no function to commit"))
	}
	return s.commit(ctx, op, claim, work)
}

// CommitEffect is [Store.CommitTx] with one row of the ledger as its work; see [model.EffectCommitter].
func (s *Store) CommitEffect(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, effect model.Effect) error {
	const op = "commit effect"
	if err := checkEffect(effect); err != nil {
		return refused(op, err)
	}
	c := Claim{Consumer: consumer, MessageID: messageID, Record: claim, Now: now}
	return s.commit(ctx, op, c, enter(ctx, s.sql.ledger, consumer, messageID, effect))
}

func (s *Store) commit(ctx context.Context, op string, claim Claim, work func(pgx.Tx) error) error {
	if err := checkCompletion(claim.Consumer, claim.MessageID, claim.Now); err != nil {
		return refused(op, err)
	}
	token, ok := tokenOf(claim.Record)
	if !ok {
		return noToken(op, claim.Record)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notSent(op, err)
	}
	defer conn.Release()

	results := conn.SendBatch(ctx, s.openBlock(claim, token))
	tx := results.Tx()
	defer rollBack(ctx, tx)
	f, err := readFence(results)
	if err != nil {
		// Until the commit is sent the block cannot take effect, however the connection was lost.
		return model.NoEffect(failed(op, err))
	}
	switch {
	case f.held:
	case f.mine:
		return nil
	case f.exists:
		return fenced(op, claim.Record)
	default:
		return fmt.Errorf("postgres: %s: claim %s: %w", op, claim.Record.Token, model.ErrNotFound)
	}
	return commitWith(ctx, op, conn.Conn(), tx, work)
}

// openBlock is the begin and the fence in one round trip.
func (s *Store) openBlock(claim Claim, token int64) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{BeginQuery: s.sql.begin})
	batch.Queue(s.sql.fence, claim.Consumer, claim.MessageID, micros(claim.Now), token)
	batch.Queue(s.sql.fenced, claim.Consumer, claim.MessageID, token, s.opts.idle())
	return batch
}

type fenceAnswer struct {
	held   bool // DONE is written, uncommitted
	mine   bool // DONE by this claim, by our hand or before
	exists bool
}

func readFence(results pgx.BatchResults) (f fenceAnswer, err error) {
	_, err = results.Exec()
	if err == nil {
		tag, fenceErr := results.Exec()
		f.held, err = tag.RowsAffected() == 1, fenceErr
	}
	if err == nil {
		var idle string
		err = results.QueryRow().Scan(&idle, &f.mine, &f.exists)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return f, err
}

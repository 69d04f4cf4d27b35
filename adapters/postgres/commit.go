package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// rollbackWait bounds the rollback of a block whose context may be over already. Past it the connection is closed,
// which rolls back too.
const rollbackWait = 5 * time.Second

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
	if err := errors.Join(checkUTF8("effect id", effect.ID), checkUTF8("account", effect.Account)); err != nil {
		return refused(op, err)
	}
	c := Claim{Consumer: consumer, MessageID: messageID, Record: claim, Now: now}
	return s.commit(ctx, op, c, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.ledger, effect.ID, effect.Account, effect.Amount, consumer, messageID)
		return err
	})
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
	if err := work(blockTx{tx}); err != nil {
		return workFailed(op, conn.Conn(), err)
	}
	switch status := conn.Conn().PgConn().TxStatus(); status {
	case 'T':
	case 'E':
		return model.NoEffect(fmt.Errorf("postgres: %s: the function returned nil although a statement of it failed; rolled back", op))
	default:
		return fmt.Errorf("postgres: %s: the function ended the transaction by itself (status %q)", op, status)
	}
	err = tx.Commit(ctx)
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return model.NoEffect(failed(op, err))
	}
	return failed(op, err)
}

// workFailed proves "no effect" only if the function left the block as it was: one that committed on its own and
// failed afterwards has had its effect.
func workFailed(op string, conn *pgx.Conn, err error) error {
	wrapped := fmt.Errorf("postgres: %s: %w", op, err)
	if status := conn.PgConn().TxStatus(); !conn.IsClosed() && status == 'I' {
		return fmt.Errorf("postgres: %s: the function ended the transaction by itself: %v", op, err)
	}
	return model.NoEffect(wrapped)
}

// openBlock is the begin and the fence in one round trip.
func (s *Store) openBlock(claim Claim, token int64) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{BeginQuery: s.sql.begin})
	batch.Queue(s.sql.fence, claim.Consumer, claim.MessageID, micros(claim.Now), token)
	idle := strconv.FormatInt(s.opts.CommitIdle.Milliseconds(), 10)
	batch.Queue(s.sql.fenced, claim.Consumer, claim.MessageID, token, idle)
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

// rollBack is a no-op after a commit. It also runs when the function panics or calls runtime.Goexit. Its error says
// nothing that matters: a connection on which it failed is closed by pgx, and the server rolls back.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// blockTx lends a transaction without the right to end it.
type blockTx struct{ pgx.Tx }

var errNotYours = errors.New("postgres: CommitTx ends this transaction, not the function that runs in it")

func (blockTx) Commit(context.Context) error   { return errNotYours }
func (blockTx) Rollback(context.Context) error { return errNotYours }

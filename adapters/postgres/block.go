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

// commitWith runs the caller's function in an open block and commits it.
func commitWith(ctx context.Context, op string, conn *pgx.Conn, tx pgx.Tx, work func(pgx.Tx) error) error {
	if err := work(blockTx{tx}); err != nil {
		return workFailed(op, conn, err)
	}
	switch status := conn.PgConn().TxStatus(); status {
	case 'T':
	case 'E':
		return model.NoEffect(fmt.Errorf("postgres: %s: the function returned nil although a statement of it failed; rolled back", op))
	default:
		return fmt.Errorf("postgres: %s: the function ended the transaction by itself (status %q)", op, status)
	}
	err := tx.Commit(ctx)
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

// enter writes one row of the ledger.
func enter(ctx context.Context, ledger, consumer, messageID string, effect model.Effect) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, ledger, effect.ID, effect.Account, effect.Amount, consumer, messageID)
		return err
	}
}

func checkEffect(effect model.Effect) error {
	return errors.Join(checkUTF8("effect id", effect.ID), checkUTF8("account", effect.Account))
}

// idle is CommitIdle as the server's setting takes it.
func (o Options) idle() string { return strconv.FormatInt(o.CommitIdle.Milliseconds(), 10) }

// rollBack is a no-op after a commit. It also runs when the function panics or calls runtime.Goexit. Its error says
// nothing that matters: a connection on which it failed is closed by pgx, and the server rolls back.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// blockTx lends a transaction without the right to end it.
type blockTx struct{ pgx.Tx }

var errNotYours = errors.New("postgres: the call that lent this transaction ends it, not the function that runs in it")

func (blockTx) Commit(context.Context) error   { return errNotYours }
func (blockTx) Rollback(context.Context) error { return errNotYours }

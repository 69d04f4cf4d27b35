package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/model"
)

var (
	_ model.Inbox  = (*Inbox)(nil)
	_ model.Reader = (*Inbox)(nil)
)

// Inbox is the store without a claim: the mark of a message and its effect are one transaction, so there is no lease
// to judge, no takeover, and nothing to fence. It fits where the whole effect is written to this database, and quickly:
// whoever else gets the message waits until the transaction has ended.
//
// All methods may be called from several goroutines and processes at once.
type Inbox struct {
	handle
	sql inboxStatements
}

// NewInbox makes an inbox over a pool that stays the caller's: Close leaves it open. Nothing is sent. Its table is the
// options' Inbox; see [Inbox.Migrate].
func NewInbox(pool *pgxpool.Pool, opts Options) (*Inbox, error) {
	opts, err := checkNew(pool, opts)
	if err != nil {
		return nil, err
	}
	sql := newInboxStatements(opts)
	return &Inbox{handle: handle{pool: pool, opts: opts, texts: sql.all()}, sql: sql}, nil
}

// ApplyTx marks a message and runs work in one transaction: both or neither.
//
//   - true: committed; the effect happened now.
//   - false without an error: the message was marked before, or by somebody whom this call waited for; work did not run.
//   - work's own error, wrapped: rolled back, the mark too; the message may be applied again.
//   - anything else: as [model.OutcomeOf] says. A lost answer to the commit is Unknown: call again, the mark knows.
//
// The mark comes first and holds its key, so of several calls at once one runs work; the others wait for its end, and
// one of them runs if it was rolled back. Taking a mark that is there is no error of the server's, so work never finds
// its transaction aborted by it, and the level is READ COMMITTED, whatever the session's is, so nobody is refused by a
// serialization failure. Options.CommitIdle bounds how long a worker that vanished in work can keep the key.
//
// work is held to the rules of [Store.CommitTx]. The call takes one round trip for its begin and mark, those of work,
// and one for the commit; for a duplicate one more than the first, to end the transaction.
func (i *Inbox) ApplyTx(ctx context.Context, consumer, messageID string, now time.Time, work func(pgx.Tx) error) (applied bool, err error) {
	const op = "apply"
	if work == nil {
		return false, refused(op, errors.New("no function to apply"))
	}
	return i.apply(ctx, op, consumer, messageID, now, work)
}

// ApplyOnce is [Inbox.ApplyTx] with one row of the ledger as its work; see [model.Inbox].
func (i *Inbox) ApplyOnce(ctx context.Context, consumer, messageID string, now time.Time, effect model.Effect) (applied bool, err error) {
	const op = "apply once"
	if err := checkEffect(effect); err != nil {
		return false, refused(op, err)
	}
	return i.apply(ctx, op, consumer, messageID, now, enter(ctx, i.sql.ledger, consumer, messageID, effect))
}

func (i *Inbox) apply(ctx context.Context, op, consumer, messageID string, now time.Time, work func(pgx.Tx) error) (bool, error) {
	if err := checkCompletion(consumer, messageID, now); err != nil {
		return false, refused(op, err)
	}
	conn, err := i.pool.Acquire(ctx)
	if err != nil {
		return false, notSent(op, err)
	}
	defer conn.Release()

	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{BeginQuery: i.sql.begin})
	batch.Queue(i.sql.mark, consumer, messageID, micros(now), i.opts.idle())
	results := conn.SendBatch(ctx, batch)
	tx := results.Tx()
	defer rollBack(ctx, tx)
	fresh, err := readMark(results)
	if err != nil {
		// Until the commit is sent the block cannot take effect, however the connection was lost.
		return false, model.NoEffect(failed(op, err))
	}
	if !fresh {
		return false, nil
	}
	if err := commitWith(ctx, op, conn.Conn(), tx, work); err != nil {
		return false, err
	}
	return true, nil
}

func readMark(results pgx.BatchResults) (fresh bool, err error) {
	var idle string
	if _, err = results.Exec(); err == nil {
		err = results.QueryRow().Scan(&idle, &fresh)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return fresh, err
}

// Prune removes the marks whose message was applied before the given instant, in batches of Options.PruneBatch, each a
// transaction and a round trip; see [model.Inbox]. From then on the same id is applied again, so the instant must lie
// further back than the broker's longest redelivery. What was old during the whole call is gone at its return; a mark
// made after the call began is left to the next one, so that the work is finite. The count is as [Store.Prune]'s.
func (i *Inbox) Prune(ctx context.Context, before time.Time) (int, error) {
	return i.prune(ctx, i.sql.prune, i.opts.Inbox, before)
}

// Lookup reads a mark without changing it: DONE, with the now of its application as UpdatedAt; see [model.Reader].
func (i *Inbox) Lookup(ctx context.Context, consumer, messageID string) (model.Record, bool, error) {
	const op = "lookup"
	if err := checkKey(consumer, messageID); err != nil {
		return model.Record{}, false, refused(op, err)
	}
	conn, err := i.pool.Acquire(ctx)
	if err != nil {
		return model.Record{}, false, notSent(op, err)
	}
	defer conn.Release()
	var appliedAt time.Time
	err = conn.QueryRow(ctx, i.sql.lookup, consumer, messageID).Scan(&appliedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, false, nil
	}
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	return model.Record{State: model.Done, UpdatedAt: appliedAt.UTC()}, true, nil
}

// Warm is [Store.Warm] for the inbox's statements.
func (i *Inbox) Warm(ctx context.Context) error { return i.warm(ctx) }

// Close ends the pool of an inbox that OpenInbox made, waiting for calls in flight; it leaves a caller's pool alone.
// It may be called more than once.
func (i *Inbox) Close() { i.close() }

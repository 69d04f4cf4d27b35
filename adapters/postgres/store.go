package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/model"
)

var (
	_ model.Store           = (*Store)(nil)
	_ model.Rebeginner      = (*Store)(nil)
	_ model.Fencer          = (*Store)(nil)
	_ model.EffectCommitter = (*Store)(nil)
	_ model.ResultKeeper    = (*Store)(nil)
	_ model.Releaser        = (*Store)(nil)
	_ model.Extender        = (*Store)(nil)
	_ model.DeadLetterer    = (*Store)(nil)
	_ model.Reader          = (*Store)(nil)
)

// Store is one handle on a dedup table. All methods may be called from several goroutines and processes at once.
type Store struct {
	handle
	sql statements
}

// New makes a handle over a pool that stays the caller's: Close leaves it open. Nothing is sent.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	opts, err := checkNew(pool, opts)
	if err != nil {
		return nil, err
	}
	sql := newStatements(opts)
	return &Store{handle: handle{pool: pool, opts: opts, texts: sql.all()}, sql: sql}, nil
}

// Warm prepares the store's statements, touching no data: on every connection of a pool that Open made, opening
// those that are not there yet; on a caller's pool, on the connections that are idle, or on one. It is for a caller
// whose first calls should already be one round trip each.
func (s *Store) Warm(ctx context.Context) error { return s.warm(ctx) }

// Close ends the pool of a handle that Open made, waiting for calls in flight; it leaves a caller's pool alone.
// It may be called more than once.
func (s *Store) Close() { s.close() }

// Begin claims a message; see [model.Store]. A refused Begin answers with the record that refused it, its reason and
// its result included. A claim that follows a released one brings that one's reason.
func (s *Store) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return s.claim(ctx, "begin", consumer, messageID, nil, now, lease)
}

// BeginAs is Begin for a delivery that has a name: presented again while its lease lives, the nonce is answered as
// the owner, with the record unchanged; see [model.Rebeginner]. A nonce is held to the limits of a message id.
func (s *Store) BeginAs(ctx context.Context, consumer, messageID, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	const op = "begin as"
	if err := checkText("nonce", nonce); err != nil {
		return model.Record{}, false, refused(op, err)
	}
	return s.claim(ctx, op, consumer, messageID, &nonce, now, lease)
}

func (s *Store) claim(ctx context.Context, op, consumer, messageID string, nonce *string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if err := checkKey(consumer, messageID); err != nil {
		return model.Record{}, false, refused(op, err)
	}
	from, until, err := span(now, lease)
	if err != nil {
		return model.Record{}, false, refused(op, err)
	}
	batch := &pgx.Batch{}
	batch.Queue(isolationSQL)
	batch.Queue(s.sql.claim, consumer, messageID, from, until, nonce)
	batch.Queue(s.sql.reread, consumer, messageID, from, nonce)

	var answer row
	err = s.send(ctx, op, batch, func(results pgx.BatchResults) error {
		err := answer.scan(results.QueryRow())
		if errors.Is(err, pgx.ErrNoRows) {
			err = answer.scan(results.QueryRow())
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return errors.New("the record that refused the claim changed although its row was locked")
		}
		return err
	})
	if err != nil {
		return model.Record{}, false, err
	}
	return answer.record(), answer.mine, nil
}

// Lookup reads a record without changing it; see [model.Reader].
func (s *Store) Lookup(ctx context.Context, consumer, messageID string) (model.Record, bool, error) {
	const op = "lookup"
	if err := checkKey(consumer, messageID); err != nil {
		return model.Record{}, false, refused(op, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return model.Record{}, false, notSent(op, err)
	}
	defer conn.Release()
	var found row
	err = found.scan(conn.QueryRow(ctx, s.sql.lookup, consumer, messageID))
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, false, nil
	}
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	return found.record(), true, nil
}

// row is a record as the statements answer it.
type row struct {
	mine       bool
	state      string
	attempts   int
	leaseUntil *time.Time
	updatedAt  time.Time
	token      int64
	reason     string
	result     []byte
}

func (r *row) scan(from pgx.Row) error {
	return from.Scan(&r.mine, &r.state, &r.attempts, &r.leaseUntil, &r.updatedAt, &r.token, &r.reason, &r.result)
}

func (r *row) record() model.Record {
	record := model.Record{
		State:     model.State(r.state),
		Attempts:  r.attempts,
		UpdatedAt: r.updatedAt.UTC(),
		Token:     strconv.FormatInt(r.token, 10),
		Reason:    r.reason,
		Result:    r.result,
	}
	if r.leaseUntil != nil {
		record.LeaseUntil = r.leaseUntil.UTC()
	}
	return record
}

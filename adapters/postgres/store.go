package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
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
	_ model.Reader          = (*Store)(nil)
)

// Store is one handle on a dedup table. All methods may be called from several goroutines and processes at once.
type Store struct {
	pool  *pgxpool.Pool
	owned bool
	opts  Options
	sql   statements

	// warming keeps two Warm calls from each holding half of the connections that both want.
	warming sync.Mutex
}

// New makes a handle over a pool that stays the caller's: Close leaves it open. Nothing is sent.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("postgres: new: no pool")
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	return &Store{pool: pool, opts: opts, sql: newStatements(opts)}, nil
}

// Begin claims a message; see [model.Store]. A refused Begin answers with the record that refused it.
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

// send runs one pipeline whose first statement is isolationSQL. The commit is answered by the Sync, after every
// statement: an answer counts only once Close has agreed.
func (s *Store) send(ctx context.Context, op string, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notSent(op, err)
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, batch)
	if _, err = results.Exec(); err == nil {
		err = read(results)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return failed(op, err)
}

// row is a record as the statements answer it.
type row struct {
	mine       bool
	state      string
	attempts   int
	leaseUntil *time.Time
	updatedAt  time.Time
	token      int64
}

func (r *row) scan(from pgx.Row) error {
	return from.Scan(&r.mine, &r.state, &r.attempts, &r.leaseUntil, &r.updatedAt, &r.token)
}

func (r *row) record() model.Record {
	record := model.Record{
		State:     model.State(r.state),
		Attempts:  r.attempts,
		UpdatedAt: r.updatedAt.UTC(),
		Token:     strconv.FormatInt(r.token, 10),
	}
	if r.leaseUntil != nil {
		record.LeaseUntil = r.leaseUntil.UTC()
	}
	return record
}

// Warm prepares the store's statements, touching no data: on every connection of a pool that Open made, opening
// those that are not there yet; on a caller's pool, on the connections that are idle, or on one. It is for a caller
// whose first calls should already be one round trip each.
func (s *Store) Warm(ctx context.Context) error {
	s.warming.Lock()
	defer s.warming.Unlock()
	wanted := 1
	if s.owned {
		wanted = int(s.pool.Config().MaxConns)
	}
	conns := s.pool.AcquireAllIdle(ctx)
	defer func() {
		for _, conn := range conns {
			conn.Release()
		}
	}()
	for len(conns) < wanted {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return notSent("warm", err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := s.sql.prepare(ctx, conn.Conn()); err != nil {
			return fmt.Errorf("postgres: warm: %w", err)
		}
	}
	return nil
}

// prepare gives the connection a statement of its own for each text: found before pgx's statement cache, and never
// displaced from it.
func (s statements) prepare(ctx context.Context, conn *pgx.Conn) error {
	for _, text := range s.all() {
		if _, err := conn.Prepare(ctx, text, text); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the pool of a handle that Open made, waiting for calls in flight; it leaves a caller's pool alone.
// It may be called more than once.
func (s *Store) Close() {
	if s.owned {
		s.pool.Close()
	}
}

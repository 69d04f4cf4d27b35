package dedup

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres is a message-dedup store in one table.
type Postgres struct{ pool *pgxpool.Pool }

// ErrStale refuses a claim that was taken over.
var ErrStale = errors.New("dedup: the claim is not current any more")

// Row is the record, and the number of its claim.
type Row struct {
	Record
	Token int64
}

// OpenPostgres opens a store in a schema; addr, if there is one, is dialled instead of the DSN's host.
func OpenPostgres(ctx context.Context, dsn, schema, addr string) (*Postgres, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	conn := config.ConnConfig
	conn.RuntimeParams["search_path"], conn.RuntimeParams["application_name"] = schema, schema
	if host, port, err := net.SplitHostPort(addr); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		conn.Host, conn.Port, conn.Fallbacks = host, uint16(number), nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &Postgres{pool}, err
}

// Close ends the connections.
func (p *Postgres) Close() { p.pool.Close() }

// Migrate makes the table.
func (p *Postgres) Migrate(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `
		create sequence processed_token;
		create table processed (
			consumer text collate "C", message_id text collate "C", state text not null, attempts int not null,
			token bigint not null, lease_until timestamptz, updated_at timestamptz not null,
			primary key (consumer, message_id))`)
	return err
}

const row = "state, attempts, lease_until, updated_at, token"

func scan(r pgx.Row) (got Row, err error) {
	var until *time.Time
	err = r.Scan(&got.State, &got.Attempts, &until, &got.UpdatedAt, &got.Token)
	if until != nil {
		got.LeaseUntil = *until
	}
	return got, err
}

// Begin claims a message: a new one, or one whose lease is over.
func (p *Postgres) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Row, bool, error) {
	until := now.Add(lease)
	now = now.Truncate(time.Microsecond)                            // the column keeps microseconds,
	if cut := until.Truncate(time.Microsecond); cut.Before(until) { // and no lease may come out shorter
		until = cut.Add(time.Microsecond)
	}
	for {
		got, err := scan(p.pool.QueryRow(ctx, `
			insert into processed as d values ($1, $2, 'PROCESSING', 1, nextval('processed_token'), $4, $3)
			on conflict (consumer, message_id) do update
				set attempts = d.attempts + 1, token = nextval('processed_token'), lease_until = $4, updated_at = $3
				where d.state = 'PROCESSING' and d.lease_until <= $3
			returning `+row, consumer, messageID, now, until))
		if !errors.Is(err, pgx.ErrNoRows) {
			return got, err == nil, err
		}
		got, err = scan(p.pool.QueryRow(ctx, `select `+row+` from processed where consumer = $1 and message_id = $2`, consumer, messageID))
		switch {
		case errors.Is(err, pgx.ErrNoRows): // pruned in between
		case err != nil:
			return got, false, err
		case got.State == "DONE" || now.Before(got.LeaseUntil):
			return got, false, nil
		}
		// What refused the claim is gone, and nothing was changed: claim again.
	}
}

// Complete makes a message DONE.
func (p *Postgres) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	tag, err := p.pool.Exec(ctx, `
		update processed set state = 'DONE', lease_until = null, updated_at = $3
		where consumer = $1 and message_id = $2`, consumer, messageID, now)
	if err == nil && tag.RowsAffected() == 0 {
		return errors.New("dedup: unknown message")
	}
	return err
}

// CompleteTx makes a message DONE and does the work of its handler in one transaction: both, or neither.
func (p *Postgres) CompleteTx(ctx context.Context, consumer, messageID string, token int64, now time.Time, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			update processed set state = 'DONE', lease_until = null, updated_at = $4
			where consumer = $1 and message_id = $2 and token = $3 and state = 'PROCESSING'`, consumer, messageID, token, now)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			return work(tx)
		}
		var again bool
		err = tx.QueryRow(ctx, `
			select exists (select from processed where consumer = $1 and message_id = $2 and token = $3)`,
			consumer, messageID, token).Scan(&again)
		if err == nil && !again {
			err = ErrStale
		}
		return err
	})
}

// Prune forgets what has been DONE since before the given instant.
func (p *Postgres) Prune(ctx context.Context, before time.Time) (int, error) {
	tag, err := p.pool.Exec(ctx, `delete from processed where state = 'DONE' and updated_at < $1`, before)
	return int(tag.RowsAffected()), err
}

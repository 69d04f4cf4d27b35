package broken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/model"
)

// AllOnError is the flaw of a [PostgresConsumer] of batches: an error in the middle of a batch, and all of it is
// acknowledged.
const AllOnError Flaw = "batch-done-on-error"

// PostgresInbox is a home-made inbox on Postgres, over the tables of PreparePostgresInbox. It is safe for concurrent
// use.
type PostgresInbox struct{ *Postgres }

// PreparePostgresInbox makes a namespace.
func PreparePostgresInbox(ctx context.Context, admin *pgxpool.Pool, namespace string) error {
	_, err := admin.Exec(ctx, fmt.Sprintf(`
		create schema %[1]s;
		create table %[1]s.marks (consumer text collate "C", id text collate "C", at timestamptz not null, primary key (consumer, id));
		create table %[1]s.ledger (consumer text, id text, effect text, account text, amount bigint)`, namespace))
	return err
}

// PostgresInboxContract is what its maker knows of it.
func PostgresInboxContract() model.Contract {
	c := PostgresContract()
	c.NoLease, c.NoAttempts = true, true
	return c
}

const (
	insertMark   = `insert into %s.marks values ($1, $2, $3) on conflict do nothing`
	insertEffect = `insert into %s.ledger values ($1, $2, $3, $4, $5)`
	selectMark   = `select true from %s.marks where consumer = $1 and id = $2`
)

// ApplyOnce applies a message that has no mark.
func (p PostgresInbox) ApplyOnce(ctx context.Context, consumer, id string, now time.Time, effect model.Effect) (bool, error) {
	if err := fitForText(consumer, id); err != nil {
		return false, err
	}
	switch p.flaw {
	case MarkFirst:
		if fresh, err := p.mark(ctx, p.pool, consumer, id, now); err != nil || !fresh {
			return false, err
		}
		return true, p.write(ctx, p.pool, consumer, id, effect)
	case EffectBefore:
		if marked, err := p.marked(ctx, p.pool, consumer, id); err != nil || marked {
			return false, err
		}
		if err := p.write(ctx, p.pool, consumer, id, effect); err != nil {
			return false, err
		}
		_, err := p.mark(ctx, p.pool, consumer, id, now)
		return true, err
	}
	fresh, err := p.apply(ctx, consumer, id, now, effect)
	if err != nil && p.flaw == MarkTakenBack { // "it failed, so it may be tried again"
		_, _ = p.pool.Exec(context.WithoutCancel(ctx), p.sql(`delete from %s.marks where consumer = $1 and id = $2`), consumer, id)
	}
	return fresh, err
}

func (p PostgresInbox) apply(ctx context.Context, consumer, id string, now time.Time, effect model.Effect) (bool, error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if p.flaw == SelectThenWrite {
		if marked, err := p.marked(ctx, tx, consumer, id); err != nil || marked {
			return false, err
		}
	}
	fresh, err := p.mark(ctx, tx, consumer, id, now)
	if err != nil || !fresh && p.flaw != SelectThenWrite {
		return false, err
	}
	if err := p.write(ctx, tx, consumer, id, effect); err != nil {
		return false, err
	}
	return true, tx.Commit(ctx)
}

func (p PostgresInbox) mark(ctx context.Context, on execer, consumer, id string, now time.Time) (fresh bool, err error) {
	tag, err := on.Exec(ctx, p.sql(insertMark), consumer, id, now)
	return tag.RowsAffected() == 1, err
}

func (p PostgresInbox) write(ctx context.Context, on execer, consumer, id string, e model.Effect) error {
	_, err := on.Exec(ctx, p.sql(insertEffect), consumer, id, e.ID, e.Account, e.Amount)
	return err
}

func (p PostgresInbox) marked(ctx context.Context, on execer, consumer, id string) (marked bool, err error) {
	err = on.QueryRow(ctx, p.sql(selectMark), consumer, id).Scan(&marked)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return marked, err
}

// Prune forgets.
func (p PostgresInbox) Prune(ctx context.Context, before time.Time) (int, error) {
	tag, err := p.pool.Exec(ctx, p.sql(`delete from %s.marks where at < $1`), before)
	return int(tag.RowsAffected()), err
}

// PostgresConsumer is a home-made consumer over an inbox.
type PostgresConsumer struct {
	PostgresInbox
	Now func() time.Time
}

// Deliver handles one message.
func (c PostgresConsumer) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	applied, err := c.ApplyOnce(ctx, m.Consumer, m.ID, c.Now(), m.Effect)
	switch {
	case err != nil:
		return model.ResultInFlight, err
	case !applied:
		return model.ResultDuplicate, nil
	}
	return model.ResultApplied, nil
}

// DeliverBatch handles what one poll brought, one after the other.
func (c PostgresConsumer) DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	told := make([]model.Result, len(batch))
	for i, m := range batch {
		var err error
		told[i], err = c.Deliver(ctx, m)
		switch {
		case err != nil && c.flaw == AllOnError: // the offset moves on
			return make([]model.Result, len(batch)), nil
		case err != nil:
			told[i] = model.ResultInFlight
		}
	}
	return told, nil
}

// ServerTimed is a right store on Postgres that lives by its server's clock: no now of a caller's reaches a statement.
type ServerTimed struct{ *Postgres }

// PrepareServerTimed makes a namespace.
func PrepareServerTimed(ctx context.Context, admin *pgxpool.Pool, namespace string) error {
	return PreparePostgres(ctx, admin, None, namespace)
}

// ServerTimedContract is what its maker knows of it.
func ServerTimedContract() model.Contract {
	c := PostgresContract()
	c.Clock = model.ServerClock
	return c
}

// Begin claims.
func (p ServerTimed) Begin(ctx context.Context, consumer, id string, _ time.Time, lease time.Duration) (model.Record, bool, error) {
	for {
		r, err := scan(p.pool.QueryRow(ctx, p.sql(`
			insert into %[1]s.dedup as d values ($1, $2, 'PROCESSING', 1, nextval('%[1]s.token'), clock_timestamp(), clock_timestamp() + $3::interval, clock_timestamp())
			on conflict (consumer, id) do update set attempts = d.attempts + 1, token = nextval('%[1]s.token'),
				claimed = clock_timestamp(), until = clock_timestamp() + $3::interval, updated = clock_timestamp()
				where d.state = 'PROCESSING' and d.until <= clock_timestamp()
			returning `+columns), consumer, id, lease))
		if err == nil {
			return r, true, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return model.Record{}, false, err
		}
		r, found, err := p.Lookup(ctx, consumer, id)
		if err != nil || found {
			return r, false, err
		}
	}
}

// Complete completes by key.
func (p ServerTimed) Complete(ctx context.Context, consumer, id string, _ time.Time) error {
	tag, err := p.pool.Exec(ctx, p.sql(`update %s.dedup set updated = case state when 'DONE' then updated else clock_timestamp() end,
		state = 'DONE', until = null where consumer = $1 and id = $2`), consumer, id)
	if err == nil && tag.RowsAffected() == 0 {
		return model.ErrNotFound
	}
	return err
}

// CompleteClaim completes by claim. now() is when the transaction began, which is as good.
func (p ServerTimed) CompleteClaim(ctx context.Context, consumer, id string, claim model.Record, _ time.Time) error {
	var at time.Time
	if err := p.pool.QueryRow(ctx, "select now()").Scan(&at); err != nil {
		return err
	}
	_, err := p.finish(ctx, p.pool, consumer, id, claim, at)
	return err
}

// Extend prolongs a claim.
func (p ServerTimed) Extend(ctx context.Context, consumer, id string, claim model.Record, _ time.Time, lease time.Duration) (model.Record, error) {
	var at time.Time
	if err := p.pool.QueryRow(ctx, "select now()").Scan(&at); err != nil {
		return model.Record{}, err
	}
	return p.Postgres.Extend(ctx, consumer, id, claim, at, lease)
}

// CommitEffect writes the effect and DONE in one transaction.
func (p ServerTimed) CommitEffect(ctx context.Context, consumer, id string, claim model.Record, _ time.Time, effect model.Effect) error {
	var at time.Time
	if err := p.pool.QueryRow(ctx, "select now()").Scan(&at); err != nil {
		return err
	}
	return p.Postgres.CommitEffect(ctx, consumer, id, claim, at, effect)
}

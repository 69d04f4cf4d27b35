package broken

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/model"
)

// The flaws of a [Postgres], beside None.
const (
	CompletesByKey   Flaw = "completes-by-key"   // the update names the message and not the claim
	TransactionAgain Flaw = "transaction-again"  // the unit of work is run again after any connection error
	EffectOutside    Flaw = "effect-outside"     // the effect is committed before the record, on its own
	PrunesYoungOnes  Flaw = "prunes-young-ones"  // the cut-off is compared with the wrong column
	RefusesItsOwner  Flaw = "refuses-its-owner"  // a completion repeated by its owner is "no longer current"
	ZoneOfTheSession Flaw = "zone-of-the-column" // instants in a column without zone
	ColumnOfSeconds  Flaw = "column-of-seconds"  // instants in a column that rounds
	ColumnFolds      Flaw = "column-folds"       // keys in a collation for people, to which case is nothing
	ColumnPads       Flaw = "column-pads"        // keys in a column of fixed width, to which trailing blanks are nothing
	PrunesAnyState   Flaw = "prunes-any-state"   // the batch is chosen by age alone
	ErrorSwallowed   Flaw = "error-swallowed"    // a transaction that failed is logged, and success is told
)

// Postgres is a home-made store on Postgres, as a team writes it in an afternoon: one table, one statement a call,
// pgx as it comes. It is safe for concurrent use.
type Postgres struct {
	flaw      Flaw
	pool      *pgxpool.Pool
	namespace string
}

// PostgresContract is what its maker knows of it: timestamptz keeps microseconds, text holds no NUL.
func PostgresContract() model.Contract {
	return model.Contract{Precision: time.Microsecond, AcceptsKey: func(consumer, id string) error {
		return fitForText(consumer, id)
	}}
}

func fitForText(texts ...string) error {
	for _, t := range texts {
		for i := range len(t) {
			if t[i] == 0 || t[i] >= 0x80 { // more than this store's makers thought of
				return fmt.Errorf("broken: %q does not fit a text column: %w", t, model.ErrRefused)
			}
		}
	}
	return nil
}

// PreparePostgres makes a namespace, on a connection of the harness's own: a schema with the two tables.
func PreparePostgres(ctx context.Context, admin *pgxpool.Pool, flaw Flaw, namespace string) error {
	people, text, instant := "", `text collate "C"`, "timestamptz"
	switch flaw {
	case ZoneOfTheSession:
		instant = "timestamp"
	case ColumnOfSeconds:
		instant = "timestamptz(0)"
	case ColumnFolds:
		people = "create collation %[1]s.people (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
		text = "text collate %[1]s.people"
	case ColumnPads:
		text = "character(2000)"
	}
	_, err := admin.Exec(ctx, fmt.Sprintf("create schema %[1]s;"+people+`
		create sequence %[1]s.token;
		create table %[1]s.dedup (consumer `+text+`, id `+text+`, state text not null, attempts int not null,
			token bigint not null, claimed `+instant+` not null, until `+instant+`, updated `+instant+` not null, primary key (consumer, id));
		create table %[1]s.ledger (consumer text, id text, effect text, account text, amount bigint)`, namespace))
	return err
}

// DropPostgres removes a namespace.
func DropPostgres(ctx context.Context, admin *pgxpool.Pool, namespace string) error {
	_, err := admin.Exec(ctx, fmt.Sprintf("drop schema %s cascade", namespace))
	return err
}

// OpenPostgres opens a handle that dials addr.
func OpenPostgres(ctx context.Context, dsn string, flaw Flaw, namespace, addr string) (*Postgres, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Host, config.ConnConfig.Port = host, uint16(n)
	config.ConnConfig.RuntimeParams["application_name"] = namespace
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &Postgres{flaw, pool, namespace}, err
}

// Close ends the connections.
func (p *Postgres) Close() { p.pool.Close() }

func (p *Postgres) sql(text string) string { return fmt.Sprintf(text, p.namespace) }

const columns = "state, attempts, token, until, updated"

func scan(row pgx.Row) (model.Record, error) {
	var r model.Record
	var token int64
	var until *time.Time
	err := row.Scan(&r.State, &r.Attempts, &token, &until, &r.UpdatedAt)
	if until != nil {
		r.LeaseUntil = *until
	}
	r.Token = strconv.FormatInt(token, 10)
	return r, err
}

// Begin claims: inserts, or takes over what is over, or reads what is there.
func (p *Postgres) Begin(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	for {
		r, claimed, err := p.claim(ctx, consumer, id, now, lease)
		if !errors.Is(err, errVanished) {
			return r, claimed, err
		}
		// It was pruned between the two statements, neither of which changed anything: it can be claimed now.
	}
}

var errVanished = errors.New("broken: the record vanished in between")

func (p *Postgres) claim(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if p.inSteps() {
		return p.claimInSteps(ctx, consumer, id, now, lease)
	}
	r, err := scan(p.pool.QueryRow(ctx, p.sql(`
		insert into %[1]s.dedup as d values ($1, $2, 'PROCESSING', 1, nextval('%[1]s.token'), $3, $4, $3)
		on conflict (consumer, id) do update set attempts = d.attempts + 1, token = nextval('%[1]s.token'), claimed = $3, until = $4, updated = $3
			where d.state = 'PROCESSING' and d.until <= $3
		returning `+columns), consumer, id, now, now.Add(lease)))
	if err == nil {
		return r, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, false, err
	}
	r, found, err := p.Lookup(ctx, consumer, id)
	if err == nil && !found {
		return model.Record{}, false, errVanished
	}
	return r, false, err
}

// Lookup reads.
func (p *Postgres) Lookup(ctx context.Context, consumer, id string) (model.Record, bool, error) {
	r, err := scan(p.pool.QueryRow(ctx, p.sql(`select `+columns+` from %s.dedup where consumer = $1 and id = $2`), consumer, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, false, nil
	}
	return r, err == nil, err
}

// Complete completes by key.
func (p *Postgres) Complete(ctx context.Context, consumer, id string, now time.Time) error {
	tag, err := p.pool.Exec(ctx, p.sql(`update %s.dedup set updated = case state when 'DONE' then updated else $3 end, state = 'DONE', until = null
		where consumer = $1 and id = $2`), consumer, id, now)
	if err == nil && tag.RowsAffected() == 0 {
		return model.ErrNotFound
	}
	return err
}

// CompleteClaim completes by claim.
func (p *Postgres) CompleteClaim(ctx context.Context, consumer, id string, claim model.Record, now time.Time) error {
	if p.flaw == CompletesByKey {
		return p.Complete(ctx, consumer, id, now)
	}
	_, err := p.finish(ctx, p.pool, consumer, id, claim, now)
	return err
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// finish makes a current claim DONE; again says that it was DONE by this claim before.
func (p *Postgres) finish(ctx context.Context, on execer, consumer, id string, claim model.Record, now time.Time) (again bool, err error) {
	token, err := strconv.ParseInt(claim.Token, 10, 64)
	if err != nil {
		return false, model.ErrFenced
	}
	tag, err := on.Exec(ctx, p.sql(`update %s.dedup set state = 'DONE', until = null, updated = $4
		where consumer = $1 and id = $2 and token = $3 and state = 'PROCESSING'`), consumer, id, token, now)
	if err != nil || tag.RowsAffected() == 1 {
		return false, err
	}
	var mine bool
	err = on.QueryRow(ctx, p.sql(`select token = $3 from %s.dedup where consumer = $1 and id = $2`), consumer, id, token).Scan(&mine)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, model.ErrNotFound
	case err != nil:
		return false, err
	case !mine || p.flaw == RefusesItsOwner:
		return false, model.ErrFenced
	}
	return true, nil
}

// CommitEffect writes the effect and DONE in one transaction.
func (p *Postgres) CommitEffect(ctx context.Context, consumer, id string, claim model.Record, now time.Time, effect model.Effect) error {
	err := p.commit(ctx, consumer, id, claim, now, effect)
	var server *pgconn.PgError
	if p.flaw == ErrorSwallowed && err != nil && model.OutcomeOf(err) == model.Unknown {
		return nil
	}
	for range 2 {
		// "It is only the connection": but the COMMIT may have been done.
		if p.flaw != TransactionAgain || err == nil || errors.As(err, &server) || model.OutcomeOf(err) != model.Unknown {
			return err
		}
		err = p.commit(ctx, consumer, id, claim, now, effect)
	}
	return err
}

func (p *Postgres) commit(ctx context.Context, consumer, id string, claim model.Record, now time.Time, effect model.Effect) error {
	const write = `insert into %s.ledger values ($1, $2, $3, $4, $5)`
	if p.flaw == EffectOutside {
		if _, err := p.pool.Exec(ctx, p.sql(write), consumer, id, effect.ID, effect.Account, effect.Amount); err != nil {
			return err
		}
	}
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	again, err := p.finish(ctx, tx, consumer, id, claim, now)
	if err != nil {
		return err
	}
	if p.flaw != EffectOutside && (!again || p.flaw == TransactionAgain) {
		if _, err := tx.Exec(ctx, p.sql(write), consumer, id, effect.ID, effect.Account, effect.Amount); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// Prune forgets.
func (p *Postgres) Prune(ctx context.Context, before time.Time) (int, error) {
	old := "state = 'DONE' and updated < $1"
	switch p.flaw {
	case PrunesYoungOnes:
		old = "state = 'DONE' and claimed < $1"
	case PrunesAnyState:
		old = "ctid = any (array (select ctid from %[1]s.dedup where updated < $1 limit 1000))"
	}
	tag, err := p.pool.Exec(ctx, p.sql(`delete from %[1]s.dedup where `+old), before)
	return int(tag.RowsAffected()), err
}

// PostgresEffects counts the effects of a namespace.
func PostgresEffects(ctx context.Context, admin *pgxpool.Pool, namespace string) ([]model.Applied, error) {
	rows, err := admin.Query(ctx, fmt.Sprintf("select consumer, id, effect, account, amount from %s.ledger", namespace), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a model.Applied, err error) {
		err = row.Scan(&a.Consumer, &a.MessageID, &a.Effect.ID, &a.Effect.Account, &a.Effect.Amount)
		return a, err
	})
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/model"
)

const (
	adminApplication = "effectonce-admin"
	adminConns       = 2
	// settlePoll is short, since a run waits for it after every fault, and not shorter, since each look copies the
	// server's whole table of sessions. The server has no event to wait for instead.
	settlePoll = 2 * time.Millisecond
)

// Admin does what a harness of any Postgres store needs beside the store, on connections of its own that pass no
// proxy. A namespace is a schema, and the application name of its workers' sessions. All methods may be called from
// several goroutines.
//
// The functions of the same names do one thing and hang up; an Admin stays connected.
type Admin struct {
	pool *pgxpool.Pool
	dsn  string
}

// OpenAdmin makes an Admin. Nothing is sent.
func OpenAdmin(ctx context.Context, dsn string) (*Admin, error) {
	config, err := parseDSN(dsn, "", adminApplication)
	if err != nil {
		return nil, fmt.Errorf("postgres: open admin: %w", err)
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = adminConns, 0, 0
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return !hungUp(conn.PgConn().Conn()), nil }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, notSent("open admin", err)
	}
	return &Admin{pool: pool, dsn: dsn}, nil
}

// Close ends the Admin's connections.
func (a *Admin) Close() { a.pool.Close() }

// OpenWorker opens the handle of one worker: in the namespace, under its name, over the worker's own proxy (addr;
// empty: none).
func OpenWorker(ctx context.Context, dsn, namespace, addr string) (*Store, error) {
	opts, err := namespaceOptions(namespace)
	if err != nil {
		return nil, err
	}
	return Open(ctx, dsn, OpenOptions{Options: opts, Addr: addr, ApplicationName: namespace})
}

// OpenInboxWorker is [OpenWorker] for an inbox.
func OpenInboxWorker(ctx context.Context, dsn, namespace, addr string) (*Inbox, error) {
	opts, err := namespaceOptions(namespace)
	if err != nil {
		return nil, err
	}
	return OpenInbox(ctx, dsn, OpenOptions{Options: opts, Addr: addr, ApplicationName: namespace})
}

// namespaceOptions holds a namespace to the limits of a schema and of an application name.
func namespaceOptions(namespace string) (Options, error) {
	if namespace == "" {
		return Options{}, errors.New("postgres: namespace is empty")
	}
	if err := checkApplication(namespace); err != nil {
		return Options{}, fmt.Errorf("postgres: namespace: %w", err)
	}
	opts := Options{Schema: namespace}
	return opts.withDefaults(), opts.Validate()
}

// Prepare makes the namespace: the schema, the store's table, the inbox and the ledger that both write to.
func (a *Admin) Prepare(ctx context.Context, namespace string) error {
	opts, err := namespaceOptions(namespace)
	if err != nil {
		return err
	}
	store, err := New(a.pool, opts)
	if err != nil {
		return err
	}
	return store.Migrate(ctx)
}

// Drop removes the namespace with all that is in it, and first hangs up what is left of its sessions: a block that
// a crashed worker left open would hold the removal for as long as the server believes in it. Dropping what is not
// there is no error.
func (a *Admin) Drop(ctx context.Context, namespace string) error {
	opts, err := namespaceOptions(namespace)
	if err != nil {
		return err
	}
	if err := a.HangUp(ctx, namespace); err != nil {
		return err
	}
	_, err = a.pool.Exec(ctx, opts.names().Replace("drop schema if exists {schema} cascade"))
	return failed("drop", err)
}

// HangUp ends every session of the namespace and returns when none is left. After it nothing that was sent before
// can take effect any more, also what still lay unread in a socket: the strong form of Settled, for workers that
// are gone or can connect anew.
func (a *Admin) HangUp(ctx context.Context, namespace string) error {
	const gone = `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where application_name = $1::text and datname = current_database() and pid <> pg_backend_pid()`
	return a.until(ctx, "hang up", namespace, gone)
}

// Settled returns when no session of the namespace is at work: executing, or inside a block. A session whose client
// is gone counts for as long as it executes. An idle session may still have a request in its socket that it has not
// read; where that matters, the workers' connections must be closed first, or [Admin.HangUp] used.
func (a *Admin) Settled(ctx context.Context, namespace string) error {
	// The state is unknown for sessions of other roles: those count, rather than not.
	const busy = `select count(*) from pg_stat_activity
		where application_name = $1::text and datname = current_database() and pid <> pg_backend_pid()
			and state is distinct from 'idle'`
	return a.until(ctx, "settled", namespace, busy)
}

// until asks until the count is zero or ctx ends.
func (a *Admin) until(ctx context.Context, op, namespace, count string) error {
	if _, err := namespaceOptions(namespace); err != nil {
		return err
	}
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		var left int
		if err := a.pool.QueryRow(ctx, count, namespace).Scan(&left); err != nil {
			return failed(op, err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("postgres: %s: %d sessions of %q are left: %w", op, left, namespace, ctx.Err())
		}
	}
}

// Blocked tells which server processes the given one waits for, by any lock; none if it does not wait.
func (a *Admin) Blocked(ctx context.Context, pid uint32) ([]uint32, error) {
	var by []uint32
	err := a.pool.QueryRow(ctx, "select pg_blocking_pids($1::int)::bigint[]", int64(pid)).Scan(&by)
	return by, failed("blocked", err)
}

// Effects reads the namespace's ledger, the store's and the inbox's effects in no particular order.
func (a *Admin) Effects(ctx context.Context, namespace string) ([]model.Applied, error) {
	const op = "effects"
	opts, err := namespaceOptions(namespace)
	if err != nil {
		return nil, err
	}
	rows, err := a.pool.Query(ctx, opts.names().Replace("select consumer, message_id, effect_id, account, amount from {ledger}"))
	if err != nil {
		return nil, failed(op, err)
	}
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a model.Applied, err error) {
		err = row.Scan(&a.Consumer, &a.MessageID, &a.Effect.ID, &a.Effect.Account, &a.Effect.Amount)
		return a, err
	})
	return applied, failed(op, err)
}

// Control is a small round trip over addr (empty: the DSN's own), on a connection made for it: whoever is asked
// whether the way is open must not answer for one that was opened earlier.
func (a *Admin) Control(ctx context.Context, addr string) error { return Control(ctx, a.dsn, addr) }

package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Prepare is [Admin.Prepare] on a connection of its own.
func Prepare(ctx context.Context, dsn, namespace string) error {
	return once(ctx, dsn, func(a *Admin) error { return a.Prepare(ctx, namespace) })
}

// Drop is [Admin.Drop] on a connection of its own.
func Drop(ctx context.Context, dsn, namespace string) error {
	return once(ctx, dsn, func(a *Admin) error { return a.Drop(ctx, namespace) })
}

// HangUp is [Admin.HangUp] on a connection of its own.
func HangUp(ctx context.Context, dsn, namespace string) error {
	return once(ctx, dsn, func(a *Admin) error { return a.HangUp(ctx, namespace) })
}

// Settled is [Admin.Settled] on a connection of its own.
func Settled(ctx context.Context, dsn, namespace string) error {
	return once(ctx, dsn, func(a *Admin) error { return a.Settled(ctx, namespace) })
}

// Blocked is [Admin.Blocked] on a connection of its own.
func Blocked(ctx context.Context, dsn string, pid uint32) (by []uint32, err error) {
	err = once(ctx, dsn, func(a *Admin) (err error) {
		by, err = a.Blocked(ctx, pid)
		return err
	})
	return by, err
}

// Effects is [Admin.Effects] on a connection of its own.
func Effects(ctx context.Context, dsn, namespace string) (applied []model.Applied, err error) {
	err = once(ctx, dsn, func(a *Admin) (err error) {
		applied, err = a.Effects(ctx, namespace)
		return err
	})
	return applied, err
}

// Control connects over addr (empty: the DSN's own), runs one small statement and hangs up.
func Control(ctx context.Context, dsn, addr string) error {
	const op = "control"
	config, err := parseDSN(dsn, addr, adminApplication)
	if err != nil {
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return notSent(op, err)
	}
	defer closeConn(ctx, conn)
	_, err = conn.Exec(ctx, "select 1")
	return failed(op, err)
}

// closeConn says goodbye even if ctx is over; a goodbye that cannot be said in time is given up.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	_ = conn.Close(ctx)
}

func once(ctx context.Context, dsn string, do func(*Admin) error) error {
	a, err := OpenAdmin(ctx, dsn)
	if err != nil {
		return err
	}
	defer a.Close()
	return do(a)
}

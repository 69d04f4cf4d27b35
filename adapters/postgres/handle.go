package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// handle is what a Store and an Inbox have in common: a pool, and the statements that its connections prepare.
type handle struct {
	pool  *pgxpool.Pool
	owned bool
	opts  Options
	texts []string

	// warming keeps two Warm calls from each holding half of the connections that both want.
	warming sync.Mutex
}

func checkNew(pool *pgxpool.Pool, opts Options) (Options, error) {
	if pool == nil {
		return opts, errors.New("postgres: new: no pool")
	}
	return opts.withDefaults(), opts.Validate()
}

// send runs one pipeline whose first statement is isolationSQL. The commit is answered by the Sync, after every
// statement: an answer counts only once Close has agreed.
func (h *handle) send(ctx context.Context, op string, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	conn, err := h.pool.Acquire(ctx)
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

// warm is Warm of what has the handle.
func (h *handle) warm(ctx context.Context) error {
	h.warming.Lock()
	defer h.warming.Unlock()
	wanted := 1
	if h.owned {
		wanted = int(h.pool.Config().MaxConns)
	}
	conns := h.pool.AcquireAllIdle(ctx)
	defer func() {
		for _, conn := range conns {
			conn.Release()
		}
	}()
	for len(conns) < wanted {
		conn, err := h.pool.Acquire(ctx)
		if err != nil {
			return notSent("warm", err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := prepare(ctx, conn.Conn(), h.texts); err != nil {
			return fmt.Errorf("postgres: warm: %w", err)
		}
	}
	return nil
}

// prepare gives the connection a statement of its own for each text: found before pgx's statement cache, and never
// displaced from it.
func prepare(ctx context.Context, conn *pgx.Conn, texts []string) error {
	for _, text := range texts {
		if _, err := conn.Prepare(ctx, text, text); err != nil {
			return err
		}
	}
	return nil
}

func (h *handle) close() {
	if h.owned {
		h.pool.Close()
	}
}

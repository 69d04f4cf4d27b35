package chaos_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/adapters/backend"
)

func TestEveryFaultIsExactOnRedis(t *testing.T) {
	s := take(t, backend.RealRedis)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	p, e := newProxy(t, s.Addr), &ears{}
	beside := openRedis(t, s, s.Addr)
	number, key := 0, ""
	open := func() *redis.Client { // a client of its own for each trial
		number++
		key = fmt.Sprintf("effectonce:chaos:exact:%d", number)
		return openRedisBy(t, s, p.Addr(), func(context.Context, string, string) (net.Conn, error) { return e.dial(p.Addr()) })
	}
	warm := func() *redis.Conn {
		c := open().Conn()
		if err := c.Get(ctx, key).Err(); err != redis.Nil {
			t.Fatal(err)
		}
		return c
	}
	must := func(c *redis.Conn, words ...any) {
		if err := c.Do(ctx, words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	three := func(p redis.Pipeliner) error {
		for range 3 {
			p.Incr(ctx, key)
		}
		return nil
	}
	wrote := func() int {
		n, err := beside.Get(ctx, key).Int()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		if err := beside.Del(ctx, key).Err(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tryAll(t, p, e, []trial{
		{"lone command", 1, true, "incr", false, func(arm func()) error {
			c := warm()
			arm()
			return c.Incr(ctx, key).Err()
		}, wrote},
		{"pipelined batch", 3, true, "incr and 2 more", false, func(arm func()) error {
			c := warm()
			arm()
			_, err := c.Pipelined(ctx, three)
			return err
		}, wrote},
		{"inside MULTI", 1, false, "incr", false, func(arm func()) error {
			c := warm()
			must(c, "MULTI")
			arm()
			return c.Do(ctx, "INCR", key).Err()
		}, wrote},
		{"the EXEC", 1, true, "exec", false, func(arm func()) error {
			c := warm()
			must(c, "MULTI")
			must(c, "INCR", key)
			arm()
			return c.Do(ctx, "EXEC").Err()
		}, wrote},
		{"MULTI to EXEC in one write", 3, true, "multi and 4 more", false, func(arm func()) error {
			c := warm()
			arm()
			_, err := c.TxPipelined(ctx, three)
			return err
		}, wrote},
		{"first of a fresh connection", 1, true, "incr", true, func(arm func()) error {
			c := open()
			arm()
			return c.Incr(ctx, key).Err()
		}, wrote},
	})
	if got := p.Protocol(); got != "redis" {
		t.Errorf("the protocol: %q", got)
	}
}

func TestEveryFaultIsExactOnPostgres(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	p, e := newProxy(t, s.Addr), &ears{}
	beside := openPostgres(t, s, s.Addr)
	const table = "effectonce_chaos_exact"
	if _, err := beside.Exec(ctx, "CREATE TABLE "+table+" (trial int)"); err != nil {
		t.Fatal(err)
	}
	defer beside.Exec(context.WithoutCancel(ctx), "DROP TABLE "+table)
	const insert = "INSERT INTO " + table + " VALUES ($1)"
	number := 0
	var last *pgx.Conn
	open := func() *pgx.Conn {
		if last != nil {
			last.Close(ctx)
		}
		number++
		last = openPostgresBy(t, s, func(context.Context, string, string) (net.Conn, error) { return e.dial(p.Addr()) })
		return last
	}
	begun := func() pgx.Tx {
		tx, err := open().Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	wrote := func() (n int) {
		if err := beside.QueryRow(ctx, "SELECT count(*) FROM "+table+" WHERE trial = $1", number).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tryAll(t, p, e, []trial{
		{"lone statement", 1, true, "execute: INSERT", false, func(arm func()) error {
			c := open()
			if _, err := c.Prepare(ctx, insert, insert); err != nil {
				t.Fatal(err)
			}
			arm()
			_, err := c.Exec(ctx, insert, number)
			return err
		}, wrote},
		{"lone simple query", 1, true, "query: INSERT", false, func(arm func()) error {
			c := open()
			arm()
			_, err := c.Exec(ctx, insert, pgx.QueryExecModeSimpleProtocol, number)
			return err
		}, wrote},
		{"pipelined batch", 3, true, "execute: INSERT and 2 more", false, func(arm func()) error {
			c, batch := open(), &pgx.Batch{}
			if _, err := c.Prepare(ctx, insert, insert); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				batch.Queue(insert, number)
			}
			arm()
			return c.SendBatch(ctx, batch).Close()
		}, wrote},
		{"inside a transaction", 1, false, "query: INSERT", false, func(arm func()) error {
			tx := begun()
			arm()
			_, err := tx.Exec(ctx, insert, pgx.QueryExecModeSimpleProtocol, number)
			return err
		}, wrote},
		{"the COMMIT", 1, true, "query: COMMIT", false, func(arm func()) error {
			tx := begun()
			if _, err := tx.Exec(ctx, insert, number); err != nil {
				t.Fatal(err)
			}
			arm()
			return tx.Commit(ctx)
		}, wrote},
		{"first of a fresh connection", 1, true, "execute: INSERT", true, func(arm func()) error {
			arm()
			_, err := open().Exec(ctx, insert, number)
			return err
		}, wrote},
	})
	if got := p.Protocol(); got != "postgres" {
		t.Errorf("the protocol: %q", got)
	}
}

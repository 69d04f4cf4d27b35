package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/chaos"
)

func arm(t testing.TB, p *chaos.Proxy, kind chaos.Kind, request int) *chaos.Armed {
	t.Helper()
	armed, err := p.Arm(chaos.Fault{Kind: kind, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return armed
}

func TestRequestsAndRepliesOfManyPiecesAreBrokenAsOne(t *testing.T) {
	s := take(t, backend.RealRedis)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openRedis(t, s, s.Addr)
	const key = "effectonce:chaos:large"
	defer beside.Del(context.WithoutCancel(ctx), key)
	for _, size := range []int{200 << 10, 5 << 20} { // below and above what is held back
		value := strings.Repeat("x\r\n", size/3)
		for _, kind := range chaos.Kinds() {
			if err := beside.Set(ctx, key, "old", 0).Err(); err != nil {
				t.Fatal(err)
			}
			client := openRedis(t, s, p.Addr())
			if err := client.Get(ctx, key).Err(); err != nil {
				t.Fatal(err)
			}
			armed := arm(t, p, kind, 1)
			if err := client.Set(ctx, key, value, 0).Err(); err == nil {
				t.Fatalf("%v of %d bytes: the call succeeded: %v", kind, size, armed.State())
			}
			waitOver(t, armed)
			got, err := beside.Get(ctx, key).Result()
			lost := kind == chaos.RequestLost || kind == chaos.HalfRequest
			if err != nil || lost && got != "old" || !lost && got != value {
				t.Errorf("%v of %d bytes: the server has %d bytes, %v: %+v", kind, size, len(got), err, armed.State())
			}
			if o := armed.State().Outcome(); lost != (o == chaos.NotExecuted) || !lost && o != chaos.Executed {
				t.Errorf("%v of %d bytes: known: %v", kind, size, o)
			}
			if err := beside.Set(ctx, key, value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			armed = arm(t, p, kind, 1)
			if got, err := openRedis(t, s, p.Addr()).Get(ctx, key).Result(); err == nil {
				t.Errorf("%v: %d bytes were read", kind, len(got))
			}
			waitOver(t, armed)
		}
	}
}

// What the page on settings says of go-redis: as it comes, it hides a lost reply by running the command again.
func TestADriverThatRepeatsHidesALostReply(t *testing.T) {
	s := take(t, backend.RealRedis)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	opts, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	opts.Addr = p.Addr()
	c := redis.NewClient(opts)
	defer c.Close()
	const key = "effectonce:chaos:repeated"
	defer c.Del(context.WithoutCancel(ctx), key)
	armed := arm(t, p, chaos.ReplyLost, 1)
	n, err := c.Incr(ctx, key).Result()
	if state := armed.Disarm(); err != nil || n != 2 || p.Requests() != 2 || state.Outcome() != chaos.Executed {
		t.Errorf("the counter is %d, %v, after %d requests: %+v; want 2 of 2, without an error", n, err, p.Requests(), state)
	}
}

func TestWhatDriversDoBesideTheCallIsNoStep(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Run("redis", func(t *testing.T) {
		s := take(t, backend.RealRedis)
		p := newProxy(t, s.Addr)
		opts, err := redis.ParseURL(s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		opts.Addr, opts.ClientName, opts.Protocol = p.Addr(), "worker", 3
		c := redis.NewClient(opts) // as it comes, with all that it says for itself
		defer c.Close()
		if err := c.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.ScriptLoad(ctx, "return 1").Err(); err != nil {
			t.Fatal(err)
		}
		if n := p.Requests(); n != 0 {
			t.Errorf("%d requests before the first call", n)
		}
		if err := c.Eval(ctx, "return 1", nil).Err(); err != nil || p.Requests() != 1 || p.Unanswered() != 0 {
			t.Errorf("%v, %d requests, %d unanswered after it", err, p.Requests(), p.Unanswered())
		}
		sub := c.Subscribe(ctx, "c")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		if text := p.Protocol(); !strings.Contains(text, "redis, then quiet time (after subscribe ") {
			t.Errorf("the protocol: %q", text)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		s := take(t, backend.Postgres)
		p := newProxy(t, s.Addr)
		c := openPostgres(t, s, p.Addr())
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
		for _, step := range []func() error{
			func() error { _, err := c.Prepare(ctx, "s", "SELECT 2"); return err },
			func() error { return c.Deallocate(ctx, "s") },
			func() error { _, err := c.Exec(ctx, "SET lock_timeout = '5s'"); return err },
			func() error { _, err := c.Exec(ctx, "SELECT 1"); return err },
		} {
			if err := step(); err != nil || p.Requests() != 0 {
				t.Errorf("%v, %d requests", err, p.Requests())
			}
		}
		armed := arm(t, p, chaos.ReplyLost, 2)
		var pid uint32
		for range 2 { // the first time it is prepared too
			if err := c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err == nil && p.Requests() != 1 {
				t.Errorf("%d requests, want 1", p.Requests())
			}
		}
		waitOver(t, armed)
		if got := armed.State(); got.Backend != pid || got.Request != "execute: SELECT" || got.Answer != "SELECT 1" {
			t.Errorf("%+v, want process %d", got, pid)
		}
	})
}

// A client may ask for TLS if it can do without, and is told of if it cannot.
func TestWhatADriverMakesOfAServerWithoutTLS(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	for _, mode := range []string{"require", "prefer"} {
		cfg, err := pgx.ParseConfig(s.DSN())
		if err != nil {
			t.Fatal("the DSN cannot be read, although it was reached")
		}
		host, port, err := net.SplitHostPort(p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		tried, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s sslmode=%s", host, port, mode))
		if err != nil {
			t.Fatal(err)
		}
		tried.User, tried.Password, tried.Database = cfg.User, cfg.Password, cfg.Database
		for _, f := range tried.Fallbacks {
			f.Host, f.Port = tried.Host, tried.Port
		}
		c, err := pgx.ConnectConfig(ctx, tried)
		if mode == "require" {
			if err == nil {
				t.Fatal("TLS through the gate")
			}
			eventually(t, "there is trouble", func() bool { return p.Trouble() != nil })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		if p.Trouble() != nil || p.Requests() != 0 {
			t.Errorf("trouble %v, %d requests", p.Trouble(), p.Requests())
		}
	}
}

func TestACancelReachesTheServerThroughTheProxy(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	c := openPostgres(t, s, p.Addr())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "SELECT pg_sleep(60)")
		ended <- err
	}()
	eventually(t, "the statement is under way", func() bool { return p.Unanswered() == 1 })
	// A server that has not begun yet has nothing to cancel.
	for stop := time.Now().Add(patience); time.Now().Before(stop); {
		if err := c.PgConn().CancelRequest(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "57014" || p.Unanswered() != 0 {
				t.Errorf("%v, %d unanswered", err, p.Unanswered())
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the statement was not cancelled")
}

// A client that gives up leaves the gate's knowledge behind: the server owes an answer until it has given it.
func TestTheGateGoesOnListeningWhenTheClientHasLeft(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openPostgres(t, s, s.Addr)
	c := openPostgres(t, s, p.Addr())
	if _, err := beside.Exec(ctx, "SELECT pg_advisory_lock(7)"); err != nil {
		t.Fatal(err)
	}
	armed := arm(t, p, chaos.ReplyLost, 1)
	short, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Exec(short, "SELECT pg_advisory_lock(7); SELECT 2", pgx.QueryExecModeSimpleProtocol)
	}()
	eventually(t, "the request is reached", func() bool { return armed.State().Reached })
	c.PgConn().Conn().Close() // no cancel is sent
	stop()
	<-ended
	if s := armed.Disarm(); s.Outcome() != chaos.Unknown || p.Unanswered() != 1 {
		t.Errorf("%v, %d unanswered: %+v", s.Outcome(), p.Unanswered(), s)
	}
	if _, err := beside.Exec(ctx, "SELECT pg_advisory_unlock(7)"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate has heard the answer", func() bool { return armed.State().Outcome() == chaos.Executed && p.Unanswered() == 0 })
}

func TestACopyIsBrokenAsOne(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openPostgres(t, s, s.Addr)
	const table = "effectonce_chaos_copy"
	if _, err := beside.Exec(ctx, "CREATE TABLE "+table+" (kind int)"); err != nil {
		t.Fatal(err)
	}
	defer beside.Exec(context.WithoutCancel(ctx), "DROP TABLE "+table)
	for _, kind := range chaos.Kinds() {
		c := openPostgres(t, s, p.Addr())
		rows := make([][]any, 1000)
		for i := range rows {
			rows[i] = []any{int32(kind)}
		}
		armed := arm(t, p, kind, 1)
		_, err := c.CopyFrom(ctx, pgx.Identifier{table}, []string{"kind"}, pgx.CopyFromRows(rows))
		if err == nil || !armed.Disarm().Fired {
			t.Fatalf("%v: %v, %+v", kind, err, armed.State())
		}
		waitOver(t, armed)
		var n int
		if err := beside.QueryRow(ctx, "SELECT count(*) FROM "+table+" WHERE kind = $1", int(kind)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		state := armed.State()
		t.Logf("%v: %d of %d rows, %v, %v", kind, n, len(rows), state.Outcome(), state)
		if (kind == chaos.ReplyLost || kind == chaos.HalfReply) && (n != len(rows) || state.Answer != "COPY 1000") {
			t.Errorf("%v: %d rows: %+v", kind, n, state)
		}
		if n != 0 && n != len(rows) || state.Outcome() == chaos.NotExecuted && n != 0 {
			t.Errorf("%v: %d of %d rows: %+v", kind, n, len(rows), state)
		}
	}
}

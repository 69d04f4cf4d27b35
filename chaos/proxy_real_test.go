package chaos_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/chaos"
)

// take gets a test a real server of its own, which it may break, or skips with the remedy.
func take(t testing.TB, get func(context.Context, backend.Options) (*backend.Server, error)) *backend.Server {
	t.Helper()
	own := backend.Share(get)
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return own.Need(t)
}

func openPostgres(t testing.TB, s *backend.Server, addr string) *pgx.Conn {
	t.Helper()
	return openPostgresBy(t, s, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
}

func openPostgresBy(t testing.TB, s *backend.Server, dial func(context.Context, string, string) (net.Conn, error)) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg, err := pgx.ParseConfig(s.DSN())
	if err != nil {
		t.Fatal("the DSN cannot be read, although it was reached") // not shown: it may hold a password
	}
	// Whatever hosts the DSN names, the driver dials the proxy, and nothing else when that fails.
	cfg.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	cfg.DialFunc = dial
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn.Close(ctx)
	})
	return conn
}

func openRedis(t testing.TB, s *backend.Server, addr string) *redis.Client {
	t.Helper()
	return openRedisBy(t, s, addr, nil)
}

// openRedisBy dials by a function of the test's own, if it has one.
func openRedisBy(t testing.TB, s *backend.Server, addr string, dial func(context.Context, string, string) (net.Conn, error)) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	opts.Addr, opts.MaxRetries, opts.PoolSize, opts.Dialer = addr, -1, 1, dial
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

// lose loses the reply of call and demands everything that may be demanded of one: it fired, the caller got an
// error, and it was over on the server's side soon.
func lose(t *testing.T, p *chaos.Proxy, call func() error) chaos.State {
	t.Helper()
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
	if err != nil {
		t.Fatal(err)
	}
	callErr := call()
	lost := loss.Disarm()
	if callErr == nil {
		t.Fatalf("the call succeeded: %+v", lost)
	}
	if !lost.Fired {
		t.Fatalf("not fired (%v): %+v", callErr, lost)
	}
	select {
	case <-loss.Over():
	case <-time.After(patience):
		t.Fatal("the server's side was not closed")
	}
	return loss.State()
}

func TestRedisAppliesEveryRequestWhoseReplyIsLost(t *testing.T) {
	s := take(t, backend.Redis)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openRedis(t, s, s.Addr)
	key := "effectonce:chaos:" + t.Name()
	if err := beside.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	defer beside.Del(context.WithoutCancel(ctx), key, key+":set")
	client := openRedis(t, s, p.Addr())
	start := time.Now()
	warm := func() { // a loss ends its connection
		t.Helper()
		if err := client.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= *exact; i++ {
		warm()
		lose(t, p, func() error { return client.Incr(ctx, key).Err() })
		if got, err := beside.Get(ctx, key).Int(); err != nil || got != i {
			t.Fatalf("loss %d: the counter is %d, %v: not applied exactly once", i, got, err)
		}
		warm()
		lose(t, p, func() error { return client.Set(ctx, key+":set", i, 0).Err() })
		if got, err := beside.Get(ctx, key+":set").Int(); err != nil || got != i {
			t.Fatalf("loss %d: SET is %d, %v: not applied", i, got, err)
		}
	}
	t.Logf("INCR applied %d of %d, SET %d of %d, the caller got an error each time; %v a loss with its new connection",
		*exact, *exact, *exact, *exact, time.Since(start)/time.Duration(2**exact))
}

func TestPostgresAppliesEveryRequestWhoseReplyIsLost(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openPostgres(t, s, s.Addr)
	const table = "effectonce_chaos_lost_replies"
	if _, err := beside.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	defer beside.Exec(context.WithoutCancel(ctx), "DROP TABLE "+table)
	start := time.Now()
	for i := 1; i <= *exact; i++ {
		client := openPostgres(t, s, p.Addr())
		if _, err := client.Prepare(ctx, "add", "INSERT INTO "+table+" VALUES ($1)"); err != nil {
			t.Fatal(err)
		}
		lost := lose(t, p, func() error { _, err := client.Exec(ctx, "add", i); return err })
		var count, last int
		if err := beside.QueryRow(ctx, "SELECT count(*), coalesce(max(id), 0) FROM "+table).Scan(&count, &last); err != nil {
			t.Fatal(err)
		}
		if count != i || last != i {
			t.Fatalf("loss %d: the table has %d rows, the last is %d: not applied exactly once (%+v)", i, count, last, lost)
		}
	}
	t.Logf("INSERT applied %d of %d, the caller got an error each time; %v a loss with its new connection",
		*exact, *exact, time.Since(start)/time.Duration(*exact))
}

// A COMMIT whose reply is lost is committed, and the transaction of a reply lost before COMMIT is rolled back by
// the time that the report calls the connection ended: no lock of it is left.
func TestALostReplyLeavesNoOpenTransaction(t *testing.T) {
	s := take(t, backend.Postgres)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newProxy(t, s.Addr)
	beside := openPostgres(t, s, s.Addr)
	const table = "effectonce_chaos_open_transactions"
	if _, err := beside.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	defer beside.Exec(context.WithoutCancel(ctx), "DROP TABLE "+table)
	for i := range 20 {
		for k, applied := range map[int]bool{2: false, 3: true} { // BEGIN, INSERT, COMMIT
			client := openPostgres(t, s, p.Addr())
			if _, err := client.Exec(ctx, "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			id := 10*i + k
			loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: k})
			if err != nil {
				t.Fatal(err)
			}
			err = pgx.BeginFunc(ctx, client, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", pgx.QueryExecModeSimpleProtocol, id)
				return err
			})
			if err == nil || !loss.Disarm().Fired {
				t.Fatalf("request %d: %v, %+v", k, err, loss.State())
			}
			select {
			case <-loss.Over():
			case <-time.After(patience):
				t.Fatal("the server's side was not closed")
			}
			if _, err := beside.Exec(ctx, "SET lock_timeout = '1ms'"); err != nil {
				t.Fatal(err)
			}
			tag, err := beside.Exec(ctx, "INSERT INTO "+table+" VALUES ($1) ON CONFLICT DO NOTHING", id)
			if err != nil || tag.RowsAffected() == 1 == applied {
				t.Fatalf("request %d: applied %v, want %v (%v)", k, tag.RowsAffected() == 0, applied, err)
			}
		}
	}
}

// The gate is open: what it costs is told as the median of requests made by turns, straight and through the proxy, so
// that both see the same machine.
func BenchmarkRedisIncr(b *testing.B) {
	s := take(b, backend.RealRedis)
	p := newProxy(b, s.Addr)
	direct, through := openRedis(b, s, s.Addr), openRedis(b, s, p.Addr())
	incr := func(c *redis.Client) func() error {
		return func() error { return c.Incr(b.Context(), "effectonce:chaos:bench").Err() }
	}
	byTurns(b, incr(direct), incr(through))
}

func BenchmarkPostgresSelect(b *testing.B) {
	s := take(b, backend.Postgres)
	p := newProxy(b, s.Addr)
	direct, through := openPostgres(b, s, s.Addr), openPostgres(b, s, p.Addr())
	query := func(c *pgx.Conn) func() error {
		return func() error { _, err := c.Exec(b.Context(), "SELECT 2"); return err }
	}
	byTurns(b, query(direct), query(through))
}

func byTurns(b *testing.B, direct, through func() error) {
	var took [2][]time.Duration
	for b.Loop() {
		for i, call := range []func() error{direct, through} {
			begun := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(median(took[0]), "µs-direct")
	b.ReportMetric(median(took[1]), "µs-through")
	b.ReportMetric(median(took[1])-median(took[0]), "µs-added")
}

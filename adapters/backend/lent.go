package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// reachTimeout bounds the first connection to a server that was lent: a wrong address must not cost a test run
// its time.
const reachTimeout = 4 * time.Second

// parsePostgres reads a connection string. The parser's own text is dropped: it quotes what it could not read,
// and masks a password in that only as far as it can tell where one begins.
func parsePostgres(dsn string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is no connection string that pgx can read (not shown: it may hold a password)", EnvPostgresDSN)
	}
	if strings.HasPrefix(cfg.Host, "/") || strings.HasPrefix(cfg.Host, "@") {
		return nil, fmt.Errorf("%s names a Unix socket; the fault proxy needs a TCP address", EnvPostgresDSN)
	}
	return cfg, nil
}

func parseRedis(rawURL string) (*redis.Options, error) {
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL that go-redis can read (not shown: it may hold a password)", EnvRedisURL)
	}
	if opts.Network == "unix" {
		return nil, fmt.Errorf("%s names a Unix socket; the fault proxy needs a TCP address", EnvRedisURL)
	}
	return opts, nil
}

func lentPostgres(ctx context.Context, dsn string) (*Server, error) {
	cfg, err := parsePostgres(dsn)
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	fail := func(step string, err error) error {
		return fmt.Errorf("backend: %s: %s: %w", EnvPostgresDSN, step, scrubbed(err, dsn, cfg.Password))
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fail("connect", err)
	}
	defer conn.Close(ctx)
	var version string
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		return nil, fail("first query", err)
	}
	// The address that was really reached: a connection string may name several hosts, or a name with several
	// addresses.
	addr := conn.PgConn().Conn().RemoteAddr().String()
	return &Server{
		Name: NamePostgres, Kind: KindDSN, Addr: addr, dsn: dsn,
		Description: fmt.Sprintf("postgres %s at %s, database %s, user %s (from %s)", version, addr, cfg.Database, cfg.User, EnvPostgresDSN),
	}, nil
}

func lentRedis(ctx context.Context, rawURL string) (*Server, error) {
	opts, err := parseRedis(rawURL)
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	info, err := pingRedis(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("backend: %s: ping %s: %w", EnvRedisURL, opts.Addr, scrubbed(err, rawURL, opts.Password))
	}
	return &Server{
		Name: NameRedis, Kind: KindDSN, Addr: opts.Addr, dsn: rawURL,
		Description: fmt.Sprintf("redis %s at %s, database %d (from %s)", infoField(info, "redis_version"), opts.Addr, opts.DB, EnvRedisURL),
	}, nil
}

// pingRedis proves that a Redis answers and returns its INFO server, empty where that command is forbidden. It
// knocks before it asks: go-redis prints each failed dial, by a logger that belongs to the whole program.
func pingRedis(ctx context.Context, opts *redis.Options) (string, error) {
	var knock net.Dialer
	conn, err := knock.DialContext(ctx, "tcp", opts.Addr)
	if err != nil {
		return "", err
	}
	if err := conn.Close(); err != nil {
		return "", err
	}
	o := *opts
	o.MaxRetries, o.DialerRetries, o.PoolSize, o.ContextTimeoutEnabled = -1, 1, 1, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&o)
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return "", err
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", nil // a managed Redis may forbid INFO; it answered PING, and that counts
	}
	return info, nil
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "of unknown version"
}

// scrubbed is err's text without the secrets, in every spelling that a driver might quote. The error itself is
// not wrapped: what it unwraps to would carry them on.
func scrubbed(err error, connString string, password string) error {
	text := strings.ReplaceAll(err.Error(), connString, "(connection string)")
	if password != "" {
		for _, spelling := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
			text = strings.ReplaceAll(text, spelling, "***")
		}
	}
	return errors.New(text)
}

// freePort asks the kernel for a loopback port that nobody listens on now. Somebody may take it before the server
// does, which is why starts are tried again.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultConns = 4
	maxConns     = 1000
	// connectWait applies where the DSN has no connect_timeout of its own; pgx would wait for two minutes.
	connectWait = 5 * time.Second
)

// errNoDSN keeps what pgx would echo out of every message: a DSN that cannot be parsed cannot be redacted either.
var errNoDSN = errors.New("the DSN cannot be parsed (its text is withheld, it may hold a password)")

// OpenOptions say how [Open] reaches the server.
type OpenOptions struct {
	Options
	// Addr is a host:port to dial instead of the DSN's, such as a proxy before the same server. TLS still verifies
	// the DSN's host.
	Addr string
	// ApplicationName is how pg_stat_activity calls the handle's sessions: printable ASCII, at most 63 bytes, since
	// the server would change any other. Empty: the DSN's.
	ApplicationName string
	// Conns is the size of the pool at most, 4 by default: one worker seldom has more calls in flight. No connection
	// is opened before it is needed.
	Conns int
	_     struct{}
}

// Open makes a handle with a pool of its own, which Close ends. Nothing is sent: the first call connects. Its
// connections prepare the store's statements as soon as they are up, if the tables are there.
//
// ctx is for the opening alone. To end a handle with something else, context.AfterFunc(alive, store.Close).
func Open(ctx context.Context, dsn string, opts OpenOptions) (*Store, error) {
	store := &Store{sql: newStatements(opts.withDefaults())}
	if err := store.open(ctx, dsn, opts, store.sql.all()); err != nil {
		return nil, err
	}
	return store, nil
}

// OpenInbox is [Open] for an inbox.
func OpenInbox(ctx context.Context, dsn string, opts OpenOptions) (*Inbox, error) {
	inbox := &Inbox{sql: newInboxStatements(opts.withDefaults())}
	if err := inbox.open(ctx, dsn, opts, inbox.sql.all()); err != nil {
		return nil, err
	}
	return inbox, nil
}

func (h *handle) open(ctx context.Context, dsn string, opts OpenOptions, texts []string) error {
	const op = "open"
	if err := opts.Validate(); err != nil {
		return err
	}
	if opts.Conns == 0 {
		opts.Conns = defaultConns
	}
	if opts.Conns < 1 || opts.Conns > maxConns {
		return fmt.Errorf("postgres: %s: Conns %d is not within 1 and %d", op, opts.Conns, maxConns)
	}
	config, err := parseDSN(dsn, opts.Addr, opts.ApplicationName)
	if err != nil {
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(opts.Conns), 0, 0
	// No ping: it would be a round trip beside the call. A connection that its server has closed shows at its socket.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return !hungUp(conn.PgConn().Conn()), nil }
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		err := prepare(ctx, conn, texts)
		if unmigrated(err) {
			return nil // the calls themselves will say so
		}
		return err
	}
	h.owned, h.opts, h.texts = true, opts.Options.withDefaults(), texts
	if h.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return notSent(op, err)
	}
	return nil
}

// parseDSN never hands on pgx's own words about a DSN: see errNoDSN.
func parseDSN(dsn, addr, application string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errNoDSN
	}
	conn := config.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectWait
	}
	if application != "" {
		if err := checkApplication(application); err != nil {
			return nil, err
		}
		conn.RuntimeParams["application_name"] = application
	}
	if addr == "" {
		return config, nil
	}
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	// Of the fallbacks only those stay that try the first server again with other TLS: sslmode=prefer is made so.
	kept := conn.Fallbacks[:0:0]
	for _, fallback := range conn.Fallbacks {
		if fallback.Host == conn.Host && fallback.Port == conn.Port {
			fallback.Host, fallback.Port = host, port
			kept = append(kept, fallback)
		}
	}
	conn.Host, conn.Port, conn.Fallbacks = host, port, kept
	return config, nil
}

func splitAddr(addr string) (string, uint16, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("address %q is not host:port", addr)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("address %q has no port number", addr)
	}
	return host, uint16(port), nil
}

func checkApplication(name string) error {
	if len(name) > maxIdentifier {
		return fmt.Errorf("application name %q has %d bytes, the server keeps %d", name, len(name), maxIdentifier)
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return errors.New("application name is not printable ASCII, which is all that the server keeps")
		}
	}
	return nil
}

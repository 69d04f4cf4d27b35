// Package backend is how tests and commands of this project get a real server: a DSN that they were given, a
// server binary found on the machine and run as a private throw-away process, or, for Redis alone and under its
// own name, miniredis in process. What was taken is always said ([Server.Description]).
//
// What it starts it stops on every way out of the program, also on those that run no defer; see watcher_linux.go.
// Nothing here listens on anything but loopback.
package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind says what stands behind a Server.
type Kind string

// The kinds of server. KindDocker can be asked for and is refused: this version has no Docker backend.
const (
	KindDSN       Kind = "dsn"       // given by the environment, not ours to break
	KindProcess   Kind = "process"   // a private process of this program
	KindMiniredis Kind = "miniredis" // an imitation in process: never proof about a real Redis
	KindDocker    Kind = "docker"
)

// Names of the servers, as EFFECTONCE_REQUIRE spells them.
const (
	NamePostgres = "postgres"
	NameRedis    = "redis"
)

// Options say which server to take. The zero value takes the first that is there: process, then miniredis.
type Options struct {
	// Force takes this kind or none: KindDSN or KindProcess. Empty: a DSN if there is one, else a process.
	Force Kind
	// Require lists servers (NamePostgres, NameRedis) whose absence is a failure. Miniredis is no Redis here.
	Require []string
	// PostgresDSN and RedisURL are connection strings; empty: none was given. They may hold passwords, so no
	// text made by this package contains them.
	PostgresDSN string
	RedisURL    string
	// Fsync makes a private Postgres write through to the disk. Off, a crash of the server loses nothing that
	// it acknowledged (the page cache survives it); a crash of the machine may.
	Fsync bool
	// StartTimeout bounds the whole start of one server. Zero: 30s.
	StartTimeout time.Duration

	folders []string // where programs are looked for; nil: PATH and the usual places
	_       struct{}
}

// String leaves the connection strings out, so that an Options in a log leaks nothing.
func (o Options) String() string {
	return fmt.Sprintf("backend.Options{Force:%q Require:%q Fsync:%v}", o.Force, o.Require, o.Fsync)
}

// GoString is String: %#v leaks nothing either.
func (o Options) GoString() string { return o.String() }

func (o Options) validate() error {
	switch o.Force {
	case "", KindDSN, KindProcess:
	case KindDocker:
		return fmt.Errorf("backend: %s=%s: this version has no Docker backend yet; use %s or %s", EnvBackend, o.Force, KindDSN, KindProcess)
	default:
		return fmt.Errorf("backend: %s=%q is none of dsn, process, docker", EnvBackend, string(o.Force))
	}
	for _, name := range o.Require {
		if name != NamePostgres && name != NameRedis {
			return fmt.Errorf("backend: %s names %q, which is none of postgres, redis", EnvRequire, name)
		}
	}
	if o.StartTimeout < 0 {
		return fmt.Errorf("backend: StartTimeout %v is negative", o.StartTimeout)
	}
	return nil
}

func (o Options) startTimeout() time.Duration {
	if o.StartTimeout == 0 {
		return 30 * time.Second
	}
	return o.StartTimeout
}

// ErrAbsent is what errors.Is finds in every [Absent].
var ErrAbsent = errors.New("backend: server absent")

// Absent is the error for a server that is not to be had here. Its text says what to install or what to set. A
// test skips on it, unless Required.
type Absent struct {
	Server   string // NamePostgres or NameRedis
	Required bool   // named by Options.Require: a failure, not a skip
	Remedy   string
}

// Error names the server and the remedy.
func (a *Absent) Error() string {
	if a.Required {
		return fmt.Sprintf("backend: no %s, although %s demands it: %s", a.Server, EnvRequire, a.Remedy)
	}
	return fmt.Sprintf("backend: no %s: %s", a.Server, a.Remedy)
}

// Is makes errors.Is(err, ErrAbsent) true.
func (a *Absent) Is(target error) bool { return target == ErrAbsent }

func (o Options) absent(server, remedy string) error {
	return &Absent{Server: server, Required: slices.Contains(o.Require, server), Remedy: remedy}
}

// Server is a server that answers. Its fields are set once and may be read by anyone; its functions may be called
// from several goroutines.
type Server struct {
	Name        string // NamePostgres or NameRedis
	Kind        Kind
	Addr        string // host:port, where a fault proxy dials
	Description string // one line: what was taken, without secrets

	// Kill ends the server as a crash does (SIGKILL for it and all its children) and returns when the last of
	// them is gone. Restart starts it again on the same address and data. Pause stops it and all its children
	// in their tracks and returns when all are stopped; Resume lets them go on. Each is nil where it is not
	// possible: nobody breaks a server that he was lent.
	Kill, Restart, Pause, Resume func(ctx context.Context) error
	// Advance moves the server's clock, which otherwise stands still. nil: real time passes.
	Advance func(ctx context.Context, d time.Duration) error

	dsn     string
	private *process // nil unless KindProcess
	close   func() error
	once    sync.Once
	closed  error
}

// DSN is the connection string (Postgres) or URL (Redis). It may hold a password: never print it.
func (s *Server) DSN() string { return s.dsn }

// String is the Description.
func (s *Server) String() string { return s.Description }

// GoString is the Description: %#v leaks nothing either.
func (s *Server) GoString() string { return s.Description }

// Close ends a server of ours, waits until it is gone, and removes its folder; one that was lent is left alone.
// Every call answers the same.
func (s *Server) Close() error {
	s.once.Do(func() {
		if s.close != nil {
			s.closed = s.close()
		}
	})
	return s.closed
}

// Postgres gets a Postgres server. It answers an [Absent] if there is none, and another error if there is one
// that does not work.
func Postgres(ctx context.Context, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.startTimeout())
	defer cancel()
	switch {
	case o.Force != KindProcess && o.PostgresDSN != "":
		return lentPostgres(ctx, o.PostgresDSN)
	case o.Force == KindDSN:
		return nil, o.absent(NamePostgres, fmt.Sprintf("%s=dsn, but %s is not set", EnvBackend, EnvPostgresDSN))
	}
	return privatePostgres(ctx, o)
}

// Redis gets a Redis server, or miniredis where there is no redis-server binary and a real one is neither forced
// nor required. It answers an [Absent] if there is none, and another error if there is one that does not work.
func Redis(ctx context.Context, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.startTimeout())
	defer cancel()
	switch {
	case o.Force != KindProcess && o.RedisURL != "":
		return lentRedis(ctx, o.RedisURL)
	case o.Force == KindDSN:
		return nil, o.absent(NameRedis, fmt.Sprintf("%s=dsn, but %s is not set", EnvBackend, EnvRedisURL))
	}
	s, err := privateRedis(ctx, o)
	var absent *Absent
	if errors.As(err, &absent) && !absent.Required && o.Force == "" {
		return imitatedRedis(absent.Remedy)
	}
	return s, err
}

// RealRedis is [Redis] without miniredis: where there is no real one it answers an [Absent].
func RealRedis(ctx context.Context, o Options) (*Server, error) {
	if o.Force == "" && o.RedisURL == "" {
		o.Force = KindProcess
	}
	return Redis(ctx, o)
}

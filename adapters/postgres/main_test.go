package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/backend"
)

// startAtMost bounds the wait for a server, on a machine that does other things too.
const startAtMost = time.Minute

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(relaxed.close(), durable.close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The servers, each started by the first test that asks for it. No test here is about power loss, so only a
// benchmark asks for the durable one.
var (
	relaxed = sharedServer{}
	durable = sharedServer{fsync: true}
)

type sharedServer struct {
	fsync bool

	once   sync.Once
	server *backend.Server
	err    error
}

func (s *sharedServer) start() {
	options, err := backend.FromEnv()
	if err != nil {
		s.err = err
		return
	}
	options.Fsync, options.StartTimeout = s.fsync, startAtMost
	s.server, s.err = backend.Postgres(context.Background(), options)
}

// dsn answers the server's connection string, or skips with what to install.
func (s *sharedServer) dsn(t testing.TB) string {
	t.Helper()
	s.once.Do(s.start)
	var absent *backend.Absent
	switch {
	case errors.As(s.err, &absent) && !absent.Required:
		t.Skip(s.err)
	case s.err != nil:
		t.Fatal(s.err)
	}
	return s.server.DSN()
}

func (s *sharedServer) close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

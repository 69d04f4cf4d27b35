package redisttl

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
	if err := realRedis.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// realRedis is started by the first test that asks, and shared by all.
var realRedis sharedServer

type sharedServer struct {
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
	if options.Force == "" && options.RedisURL == "" {
		options.Force = backend.KindProcess // miniredis has its own turn in these tests, and is no answer here
	}
	options.StartTimeout = startAtMost
	s.server, s.err = backend.Redis(context.Background(), options)
}

// url answers the server's URL, or skips with what to install.
func (s *sharedServer) url(t testing.TB) string {
	t.Helper()
	s.once.Do(s.start)
	var absent *backend.Absent
	switch {
	case errors.As(s.err, &absent) && !absent.Required:
		t.Skip(s.err)
	case s.err != nil:
		t.Fatal(s.err)
	}
	t.Log(s.server)
	return s.server.DSN()
}

func (s *sharedServer) close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/postgres"
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
	err    error
	server *backend.Server
	admin  *postgres.Admin // of the namespaces: one connection for all, not two for each
	raw    *pgxpool.Pool   // with which tests play the others
}

func (s *sharedServer) start() error {
	options, err := backend.FromEnv()
	if err != nil {
		return err
	}
	ctx := context.Background()
	options.Fsync, options.StartTimeout = s.fsync, startAtMost
	if s.server, err = backend.Postgres(ctx, options); err != nil {
		return err
	}
	if s.admin, err = postgres.OpenAdmin(ctx, s.server.DSN()); err != nil {
		return err
	}
	s.raw, err = pgxpool.New(ctx, s.server.DSN())
	return err
}

// dsn answers the server's connection string, or skips with what to install.
func (s *sharedServer) dsn(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.start() })
	var absent *backend.Absent
	switch {
	case errors.As(s.err, &absent) && !absent.Required:
		t.Skip(s.err)
	case s.err != nil:
		t.Fatal(s.err)
	}
	return s.server.DSN()
}

// namespace is a fresh schema with its tables, dropped at the test's end.
func (s *sharedServer) namespace(t testing.TB) string {
	t.Helper()
	s.dsn(t)
	namespace := "eo_test_" + strings.ToLower(rand.Text()[:10])
	if err := s.admin.Prepare(testContext(t), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
		defer cancel()
		if err := s.admin.Drop(ctx, namespace); err != nil {
			t.Error(err)
		}
	})
	return namespace
}

func (s *sharedServer) close() error {
	if s.raw != nil {
		s.raw.Close()
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

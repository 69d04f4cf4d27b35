package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/adapters/postgres"
)

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
	relaxed = newSharedServer(false)
	durable = newSharedServer(true)
)

type sharedServer struct {
	*backend.Shared
	fsync bool
	admin *postgres.Admin // of the namespaces: one connection for all, not two for each
	raw   *pgxpool.Pool   // with which tests play the others
}

func newSharedServer(fsync bool) *sharedServer {
	s := &sharedServer{fsync: fsync}
	s.Shared = backend.Share(s.open)
	return s
}

func (s *sharedServer) open(ctx context.Context, o backend.Options) (*backend.Server, error) {
	o.Fsync = s.fsync
	server, err := backend.Postgres(ctx, o)
	if err != nil {
		return nil, err
	}
	if s.admin, err = postgres.OpenAdmin(ctx, server.DSN()); err == nil {
		s.raw, err = pgxpool.New(ctx, server.DSN())
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// namespace is a fresh schema with its tables, dropped at the test's end.
func (s *sharedServer) namespace(t testing.TB) string {
	t.Helper()
	s.Need(t)
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
	return s.Shared.Close()
}

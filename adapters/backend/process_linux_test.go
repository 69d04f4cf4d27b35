package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

func take(t *testing.T, get func(context.Context, Options) (*Server, error), o Options) *Server {
	t.Helper()
	s, err := get(t.Context(), o)
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func query(t *testing.T, s *Server, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var answer string
	err = conn.QueryRow(ctx, sql).Scan(&answer)
	return answer, err
}

// session is a connection to the server, and a context that bounds what a test does with it.
func session(t *testing.T, s *Server) (context.Context, *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the test's own is over
		defer cancel()
		conn.Close(ctx)
	})
	return ctx, conn
}

func TestAPrivatePostgresIsSetUpAsPromised(t *testing.T) {
	t.Parallel()
	for _, fsync := range []bool{false, true} {
		s := take(t, Postgres, Options{Force: KindProcess, Fsync: fsync})
		word := map[bool]string{false: "off", true: "on"}[fsync]
		for setting, want := range map[string]string{
			"max_connections": "200", "fsync": word, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
			"server_encoding": "UTF8", "lc_collate": "C", "TimeZone": "UTC",
		} {
			if got, err := query(t, s, "SELECT current_setting('"+setting+"')"); err != nil || got != want {
				t.Errorf("fsync %v: %s = %q, %v; want %q", fsync, setting, got, err, want)
			}
		}
		if !strings.Contains(s.Description, "fsync "+word) || !strings.Contains(s.Description, s.Addr) {
			t.Errorf("Description %q tells not fsync %s and %s", s.Description, word, s.Addr)
		}
		if os.Geteuid() == 0 {
			for _, m := range running(s.private) {
				info, err := os.Stat(fmt.Sprintf("/proc/%v", m))
				if errors.Is(err, os.ErrNotExist) {
					continue // a backend that ended meanwhile
				}
				if err != nil || ownerOf(info) == 0 {
					t.Errorf("process %v runs as root (%v)", m, err)
				}
			}
		}
	}
}

func TestAKilledPostgresComesBackWithWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	s := take(t, Postgres, Options{Force: KindProcess})
	ctx, conn := session(t, s)
	if _, err := conn.Exec(ctx, "CREATE TABLE t AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(ctx); err == nil {
		t.Error("a running server was started again")
	}
	before := running(s.private)
	if err := s.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	for _, m := range before {
		if m.alive() {
			t.Errorf("process %v lives after Kill", m)
		}
	}
	if _, err := query(t, s, "SELECT n::text FROM t"); err == nil {
		t.Error("a killed server answered")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := query(t, s, "SELECT n::text FROM t"); err != nil || got != "7" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
	// A server that was killed has left a System V segment behind; Close removes it.
	seen := see(s)
	if err := errors.Join(s.Kill(ctx), s.Close()); err != nil {
		t.Fatal(err)
	}
	expectGone(t, seen)
}

func TestAPausedPostgresStandsStillAndGoesOn(t *testing.T) {
	t.Parallel()
	s := take(t, Postgres, Options{Force: KindProcess})
	ctx, conn := session(t, s)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(0.2)")
		done <- err
	}()
	if err := s.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Errorf("a query ended during the pause: %v", err)
	case <-time.After(600 * time.Millisecond):
	}
	if err := s.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the query after the pause: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the query did not go on")
	}
}

func TestAPrivateRedisCanBeKilledAndForgets(t *testing.T) {
	t.Parallel()
	s := take(t, Redis, Options{Force: KindProcess})
	opts, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Pause(ctx), s.Resume(ctx), s.Kill(ctx), s.Restart(ctx)); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Errorf("after the restart: %d keys, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, fault := range map[string]func(context.Context) error{
		"kill": s.Kill, "restart": s.Restart, "pause": s.Pause, "resume": s.Resume,
	} {
		if err := fault(ctx); !errors.Is(err, errClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
}

// writeScript makes a program for the tests.
func writeScript(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatDiesEarlyIsAnErrorWithItsLog(t *testing.T) {
	t.Parallel()
	dir := tempParent(t)
	writeScript(t, dir, "redis-server", "echo starting; echo 'no more frobs' >&2; exit 7")
	_, err := Redis(t.Context(), Options{Force: KindProcess, folders: []string{dir}})
	if err == nil || !strings.Contains(err.Error(), "no more frobs") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("error %v", err)
	}
	writeScript(t, dir, "initdb", "echo 'no space for a cluster'; exit 1")
	writeScript(t, dir, "postgres", "exit 1")
	_, err = Postgres(t.Context(), Options{Force: KindProcess, folders: []string{dir}})
	if err == nil || !strings.Contains(err.Error(), "no space for a cluster") {
		t.Errorf("error %v", err)
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	dir := tempParent(t)
	writeScript(t, dir, "redis-server", "echo 'thinking'; exec sleep 60")
	start := time.Now()
	_, err := Redis(t.Context(), Options{Force: KindProcess, folders: []string{dir}, StartTimeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "thinking") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("given up after %v", took)
	}
}

// The port may be taken between the choice and the start. The server then says so and ends, and another port is
// tried; a stranger who answers meanwhile is not taken for ours.
func TestATakenPortIsChosenAgain(t *testing.T) {
	t.Parallel()
	real := take(t, Redis, Options{Force: KindProcess})
	dir := tempParent(t)
	count := filepath.Join(dir, "count")
	if err := os.WriteFile(count, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(count, 0o666); err != nil {
		t.Fatal(err)
	}
	// The first two starts get the port of a server that runs already.
	_, taken, err := net.SplitHostPort(real.Addr)
	if err != nil {
		t.Fatal(err)
	}
	binary := real.private.argv(0)[0]
	writeScript(t, dir, "redis-server", fmt.Sprintf(`echo x >> %[1]s
[ "$(wc -l < %[1]s)" -gt 2 ] || exec %[3]s "$@" --port %[2]s
exec %[3]s "$@"`, count, taken, binary))
	s, err := Redis(t.Context(), Options{Force: KindProcess, folders: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if tries, err := os.ReadFile(count); err != nil || strings.Count(string(tries), "x") != 3 {
		t.Errorf("tries %q, %v; want 3", tries, err)
	}

	writeScript(t, dir, "redis-server", "exec "+binary+" \"$@\" --port "+taken)
	_, err = Redis(t.Context(), Options{Force: KindProcess, folders: []string{dir}})
	if !errors.Is(err, errPortTaken) {
		t.Errorf("a port that is always taken: %v", err)
	}
}

// Postgres is asked to stop before it is killed; one that does not listen is killed all the same.
func TestAServerThatDoesNotFollowIsKilled(t *testing.T) {
	tmp, dir := tempParent(t), tempParent(t)
	t.Setenv("TMPDIR", tmp)
	writeScript(t, dir, "initdb", "mkdir data")
	writeScript(t, dir, "postgres", "cd data; trap '' QUIT TERM; echo $$ > postmaster.pid; exec sleep 300")
	_, err := Postgres(t.Context(), Options{Force: KindProcess, folders: []string{dir}, StartTimeout: time.Second})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if rest, err := os.ReadDir(tmp); err != nil || len(rest) > 0 {
		t.Errorf("left: %v, %v", rest, err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, tmp) {
			t.Errorf("%s still works in %s", link, cwd)
		}
	}
}

func TestAStrangerOnThePortIsNotTakenForOurs(t *testing.T) {
	real := take(t, Redis, Options{Force: KindProcess})
	p := real.private
	if err := p.ready(t.Context(), p.port, p.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := p.ready(t.Context(), p.port, p.cmd.Process.Pid+1); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("error %v", err)
	}
}

func TestTheFolderWithBothProgramsAndTheHighestVersionIsFound(t *testing.T) {
	root := t.TempDir()
	mk := func(dir, head string, names ...string) string {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(head), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	v15 := mk("15/bin", "\x7fELF", "initdb", "postgres")
	v9 := mk("9.6/bin", "\x7fELF", "initdb", "postgres")
	half := mk("half", "\x7fELF", "postgres")
	wrapper := mk("wrapper", "#!/bin/sh\n", "initdb", "postgres")
	linked := mk("linked", "")
	if err := os.Symlink(filepath.Join(v9, "postgres"), filepath.Join(linked, "postgres")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, debian []string
		want         string
	}{
		{nil, nil, ""},
		{[]string{half}, nil, ""},
		{[]string{half}, []string{v15, v9}, v15},
		{[]string{wrapper}, []string{v15}, v15},
		{[]string{wrapper}, nil, wrapper},
		{[]string{linked}, []string{v15}, v9},
		{[]string{v9}, []string{v15}, v9},
	} {
		if got := findPostgres(c.path, c.debian); got != c.want {
			t.Errorf("findPostgres(%v, %v) = %q, want %q", c.path, c.debian, got, c.want)
		}
	}
}

func TestAFolderThatTheServersUserCannotEnterIsNotUsed(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	inner := filepath.Join(closed, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := enterable(inner, "/"); got != "/" {
		t.Errorf("enterable = %q", got)
	}
	if got := enterable(inner); got != inner {
		t.Errorf("enterable without a choice = %q", got)
	}
}

// Postgres tells a wrong password from a right one only if it asks for one.
func TestAWrongPostgresPasswordIsAClearErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	s := take(t, Postgres, Options{Force: KindProcess})
	if _, err := query(t, s, "SELECT 1::text"); err != nil {
		t.Fatal(err)
	}
	ctx, conn := session(t, s)
	if _, err := conn.Exec(ctx, "CREATE ROLE lent LOGIN PASSWORD 'right'"); err != nil {
		t.Fatal(err)
	}
	hba := filepath.Join(s.private.dir, "data", "pg_hba.conf")
	rules := "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(hba, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the password is asked for", func() bool {
		c, err := pgx.Connect(ctx, "postgres://lent@"+s.Addr+"/postgres?sslmode=disable")
		if err == nil {
			c.Close(ctx)
		}
		return err != nil
	})
	failsSoon(t, EnvPostgresDSN, Postgres, Options{PostgresDSN: "postgres://lent:hunter2@" + s.Addr + "/postgres"})
	lent, err := Postgres(ctx, Options{PostgresDSN: "postgres://lent:right@" + s.Addr + "/postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if lent.Kind != KindDSN || lent.Addr != s.Addr || lent.Kill != nil || strings.Contains(lent.Description, "right") {
		t.Errorf("got %v, kind %s", lent, lent.Kind)
	}
	t.Log(lent)
}

func ownerOf(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

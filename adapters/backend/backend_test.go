package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestABadValueStopsWithItsNameAndText(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{EnvBackend, "dokcer", `"dokcer"`},
		{EnvBackend, "miniredis", `"miniredis"`},
		{EnvBackend, "docker", "no Docker backend yet"},
		{EnvRequire, "postgres,mysql", `"mysql"`},
		{EnvRequire, "postgres,,redis", `""`},
	} {
		_, err := fromEnv(env(c.name, c.value))
		if err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v; want %s in it", c.name, c.value, err, c.want)
		}
	}
	o, err := fromEnv(env(EnvRequire, "postgres, redis", EnvBackend, "process"))
	if err != nil || len(o.Require) != 2 || o.Require[1] != "redis" || o.Force != KindProcess {
		t.Errorf("%v, %v", o, err)
	}
}

func TestAConnectionStringThatCannotBeReadIsNeverShown(t *testing.T) {
	for name, values := range map[string][]string{
		EnvPostgresDSN: {
			"postgres://u:hunter2@host:port/db", "postgres://u:hunter2@h/db?sslmode=perhaps", "password=hunter2 port=x",
			"postgres://u:hun%ter2hunter2@host/db", "hunter2", "host=/run/pg password=hunter2",
		},
		EnvRedisURL: {
			"redis://:hunter2@host:6379/notanumber", "hunter2@host:6379", "redis://:hunter2@ho st", "unix://u:hunter2@/run/r.sock",
			"redis://:hunter2%@h",
		},
	} {
		for _, value := range values {
			_, err := fromEnv(env(name, value))
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			} else if everything := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(everything, "hunter2") {
				t.Errorf("the password is in %s", everything)
			}
		}
	}
	o := Options{PostgresDSN: "postgres://u:hunter2@h/d", RedisURL: "redis://:hunter2@h"}
	s := &Server{Description: "a server", dsn: o.PostgresDSN}
	if all := fmt.Sprintf("%v %+v %#v %v %+v %#v", o, o, o, s, s, s); strings.Contains(all, "hunter2") {
		t.Errorf("the password is in %s", all)
	}
}

// failsSoon fails unless get fails soon, with the name of the variable and without the password.
func failsSoon(t *testing.T, name string, get func(context.Context, Options) (*Server, error), o Options) {
	t.Helper()
	start := time.Now()
	s, err := get(t.Context(), o)
	if err == nil {
		s.Close()
		t.Fatal("it was reached")
	}
	if errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v; want one that names %s and is not an absence", err, name)
	}
	if everything := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(everything, "hunter2") {
		t.Errorf("the password is in %s", everything)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
	t.Log(err)
}

func TestAServerThatCannotBeReachedIsAClearError(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{fmt.Sprintf("127.0.0.1:%d", port), silent.Addr().String()} {
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			failsSoon(t, EnvPostgresDSN, Postgres, Options{PostgresDSN: "postgres://u:hunter2@" + addr + "/d"})
		})
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			failsSoon(t, EnvRedisURL, Redis, Options{RedisURL: "redis://:hunter2@" + addr})
		})
	}
}

func TestAWrongPasswordIsAClearErrorWithoutThePassword(t *testing.T) {
	s, err := Redis(t.Context(), Options{Force: KindProcess})
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	opts, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	if err := client.ConfigSet(t.Context(), "requirepass", "the right one").Err(); err != nil {
		t.Fatal(err)
	}
	failsSoon(t, EnvRedisURL, Redis, Options{RedisURL: "redis://:hunter2@" + s.Addr})
	failsSoon(t, EnvRedisURL, Redis, Options{RedisURL: "redis://" + s.Addr})

	lent, err := Redis(t.Context(), Options{RedisURL: "redis://:the%20right%20one@" + s.Addr + "/3"})
	if err != nil {
		t.Fatal(err)
	}
	if lent.Kind != KindDSN || lent.Addr != s.Addr || lent.Kill != nil || strings.Contains(lent.Description, "right") {
		t.Errorf("got %v, kind %s", lent, lent.Kind)
	}
	if err := lent.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Close of a lent server did something to it: %v", err)
	}
}

func TestAnAbsentServerSaysWhatToDo(t *testing.T) {
	nowhere := []string{t.TempDir()}
	for _, c := range []struct {
		name string
		get  func(context.Context, Options) (*Server, error)
		o    Options
		want string
	}{
		{NamePostgres, Postgres, Options{folders: nowhere}, "package postgresql"},
		{NamePostgres, Postgres, Options{Force: KindDSN}, EnvPostgresDSN + " is not set"},
		{NamePostgres, Postgres, Options{Force: KindProcess, PostgresDSN: "postgres://h/d", folders: nowhere}, "package postgresql"},
		{NameRedis, Redis, Options{Force: KindProcess, folders: nowhere}, "package redis-server"},
		{NameRedis, Redis, Options{Force: KindDSN}, EnvRedisURL + " is not set"},
		{NameRedis, Redis, Options{Require: []string{NameRedis}, folders: nowhere}, "package redis-server"},
	} {
		s, err := c.get(t.Context(), c.o)
		var absent *Absent
		if !errors.As(err, &absent) || !errors.Is(err, ErrAbsent) {
			t.Errorf("%v: got %v, %v; want an absence", c.o, s, err)
			continue
		}
		if absent.Server != c.name || !strings.Contains(err.Error(), c.want) || absent.Required != (len(c.o.Require) > 0) {
			t.Errorf("%v: %+v", c.o, absent)
		}
	}
}

func TestMiniredisStandsInUnderItsOwnNameAndItsClockMovesByAdvanceAlone(t *testing.T) {
	s, err := Redis(t.Context(), Options{folders: []string{t.TempDir()}, Require: []string{NamePostgres}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Kind != KindMiniredis || !strings.Contains(s.Description, "miniredis") || s.Kill != nil {
		t.Errorf("kind %s, %s", s.Kind, s.Description)
	}
	opts, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	ctx := t.Context()
	if err := client.Set(ctx, "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	before, err := client.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		by     time.Duration
		exists int64
	}{{59 * time.Second, 1}, {time.Second, 0}} {
		if err := s.Advance(ctx, step.by); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Exists(ctx, "k").Result(); err != nil || n != step.exists {
			t.Errorf("after %v more: %d keys, %v; want %d", step.by, n, err, step.exists)
		}
	}
	after, err := client.Time(ctx).Result()
	if err != nil || after.Sub(before) != time.Minute {
		t.Errorf("TIME moved by %v, %v; want a minute", after.Sub(before), err)
	}
	if err := s.Advance(ctx, -time.Second); err == nil {
		t.Error("the clock moved back")
	}
}

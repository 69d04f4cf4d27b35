package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

func TestDropTakesOneNamespaceOnly(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		ctx := t.Context()
		name := freshNamespace(t, url)
		stays := open(t, url, Options{Namespace: name + ":1"})
		defer func() {
			if err := Drop(context.Background(), url, name+":1"); err != nil {
				t.Error(err)
			}
		}()
		goes := open(t, url, Options{Namespace: name})
		fill(t, goes, scanCount+100)
		fill(t, stays, 5)
		if err := Drop(ctx, url, name); err != nil {
			t.Fatal(err)
		}
		left, err := goes.client.Keys(ctx, "*{"+strconv.Itoa(len(name))+":"+name+":*").Result()
		if err != nil || len(left) != 0 {
			t.Errorf("%d keys are left, %v", len(left), err)
		}
		if n, err := stays.Prune(ctx, epoch.Add(time.Hour)); n != 5 || err != nil {
			t.Errorf("the namespace beside it has %d records, %v, want 5", n, err)
		}
	})
}

func TestEffectsReadsEveryPartitionAndPage(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		namespace := freshNamespace(t, url)
		if _, err := Effects(t.Context(), url, namespace); err == nil {
			t.Error("a namespace that was never prepared has effects")
		}
		s := open(t, url, Options{Namespace: namespace, Partitions: 1})
		const messages = ledgerPage + 20
		sum := int64(0)
		var rows []any // of effects that were committed long ago
		for i := range messages {
			id := strconv.Itoa(i)
			effect := model.Effect{ID: "e" + id, Amount: int64(i)}
			sum += effect.Amount
			if i%100 != 0 {
				rows = append(rows, effectRow("c", id, effect))
				continue
			}
			r, _, err := s.Begin(t.Context(), "c", id, epoch, lease)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.CommitEffect(t.Context(), "c", id, r, epoch, effect); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.client.RPush(t.Context(), s.slots[0].ledger, rows...).Err(); err != nil {
			t.Fatal(err)
		}
		all, err := Effects(t.Context(), url, namespace)
		if err != nil || len(all) != messages {
			t.Fatalf("%d effects, %v, want %d", len(all), err, messages)
		}
		for _, a := range all {
			sum -= a.Effect.Amount
			if "e"+a.MessageID != a.Effect.ID {
				t.Fatalf("effect %+v", a)
			}
		}
		if sum != 0 {
			t.Errorf("the amounts are %d short", sum)
		}
	})
}

func TestControlAsksForAWholeAnswer(t *testing.T) {
	server := miniredis.RunT(t)
	if err := Control(t.Context(), server.Addr()); err != nil {
		t.Error(err)
	}
	server.RequireAuth("x")
	if err := Control(t.Context(), server.Addr()); err != nil {
		t.Errorf("a server that wants a password: %v", err)
	}
	if err := Control(t.Context(), freeAddr(t)); err == nil {
		t.Error("nobody listens, and Control is content")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Control(ctx, silent.Addr().String()); err == nil {
		t.Error("a silent server answered")
	}
}

func TestSettledIsNotPossibleOnMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	if err := Settled(t.Context(), "redis://"+server.Addr(), "n"); err == nil {
		t.Error("miniredis has no CLIENT LIST, and Settled is content")
	}
}

func TestSettledAcceptsConnectionsThatAreIdleOrGone(t *testing.T) {
	url := realRedis.Need(t).DSN()
	namespace := freshNamespace(t, url)
	s := open(t, url, Options{Namespace: namespace})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := Settled(ctx, url, namespace); err != nil {
		t.Errorf("with an idle connection: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Settled(ctx, url, namespace); err != nil {
		t.Errorf("with none: %v", err)
	}
}

// Half a command is in the server's query buffer: until its connection is closed, Settled waits.
func TestSettledWaitsForHalfACommand(t *testing.T) {
	url := realRedis.Need(t).DSN()
	namespace := freshNamespace(t, url)
	settings, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{"*2\r\n$4\r\nINCR\r\n$3\r\nab", "*2\r\n$4\r\nINCR\r\n", "*2\r\n$4\r\nIN"} {
		conn := namedConn(t, settings.Addr, namespace)
		if _, err := conn.Write([]byte(half)); err != nil {
			t.Fatal(err)
		}
		ping := goredis.NewClient(settings) // the half has been read when a later request is answered
		if err := errors.Join(ping.Ping(t.Context()).Err(), ping.Close()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := Settled(ctx, url, namespace); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("with %q in the buffer: %v, want a wait until the deadline", half, err)
		}
		cancel()
		conn.Close()
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		if err := Settled(ctx, url, namespace); err != nil {
			t.Errorf("after the close: %v", err)
		}
		cancel()
	}
}

// What a client sent before it closed is more than Redis reads in one turn: others are served in between, and see it
// undone. After Settled it is done.
func TestSettledComesAfterAllThatAClosedConnectionSent(t *testing.T) {
	url := realRedis.Need(t).DSN()
	namespace := freshNamespace(t, url)
	settings, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(settings)
	defer client.Close()
	last := namespacePrefix(namespace) + "last"
	many := strings.Repeat(request("SET", namespacePrefix(namespace)+"other", strings.Repeat("v", 500)), 2000)
	for name, sent := range map[string]string{
		"many commands":    many + request("SET", last, "v"),
		"one long command": request("SET", last, strings.Repeat("v", 4<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				if err := client.Del(t.Context(), last).Err(); err != nil {
					t.Fatal(err)
				}
				conn := namedConn(t, settings.Addr, namespace)
				written := make(chan error, 1)
				go func() {
					_, err := conn.Write([]byte(sent))
					written <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
				}()
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				if err := Settled(t.Context(), url, namespace); err != nil {
					t.Fatal(err)
				}
				if n, err := client.Exists(t.Context(), last).Result(); n != 1 || err != nil {
					t.Errorf("after Settled the last command is not done (%d, %v)", n, err)
				}
				conn.Close()
			}
		})
	}
}

func request(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// namedConn is a connection of its own that bears a name, as those of a Store do.
func namedConn(t *testing.T, addr, name string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte(request("CLIENT", "SETNAME", name))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "+OK\r\n" {
		t.Fatalf("CLIENT SETNAME answers %q, %v", answer, err)
	}
	return conn
}

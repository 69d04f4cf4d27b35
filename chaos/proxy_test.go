package chaos_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

func TestAProxyWithoutAFaultPassesEverythingUnchanged(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	c := dial(t, p)
	for i := 1; i <= 50; i++ {
		mustAsk(t, c, "hello", fmt.Sprintf("%d hello", i))
	}
	if _, err := ask(c, "big"); err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, c, 4<<20); err != nil || n != 4<<20 {
		t.Fatalf("read %d of the 4 MiB: %v", n, err)
	}
	if got := p.Requests(); got != 51 {
		t.Errorf("Requests() = %d after 51 requests", got)
	}
}

func TestCutEndsAllConnectionsForGood(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	c := dial(t, p)
	mustAsk(t, c, "warm", "1 warm")
	p.Cut()
	if got, err := ask(c, "dead"); err == nil {
		t.Fatalf("an answer after Cut: %q", got)
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("a new connection after Cut")
	}
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Arm after Cut: %v", err)
	}
	eventually(t, "the server was told", func() bool { return s.open.Load() == 0 })
}

func TestAnUpstreamThatIsDownEndsTheClientAndNotTheProxy(t *testing.T) {
	s := serveLines(t)
	addr := s.Addr().String()
	s.Listener.Close()
	p := newProxy(t, addr)
	if got, err := ask(dial(t, p), "x"); err == nil {
		t.Fatalf("an answer from nobody: %q", got)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the upstream's port was taken meanwhile: %v", err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "back\n")
			c.Close()
		}
	}()
	if got, err := ask(dial(t, p), "x"); got != "back" {
		t.Fatalf("after the upstream came back: %q, %v", got, err)
	}
}

// Toxiproxy's own links keep goroutines when a peer stops reading in the middle; ours must not.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	s := serveLines(t)
	before := runtime.NumGoroutine()
	for i := range 20 {
		p, err := chaos.NewProxy("w", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		kinds := chaos.Kinds()
		armed := arm(t, p, kinds[i%len(kinds)], 2)
		idle := dial(t, p)
		if _, err := ask(idle, "one"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(idle, "two"); err == nil {
			t.Fatal("the reply came")
		}
		waitOver(t, armed)
		gone := dial(t, p) // leaves in the middle of an answer
		if _, err := ask(gone, "big"); err != nil {
			t.Fatal(err)
		}
		gone.Close()
		deaf := dial(t, p) // stays, and does not read its answer
		if _, err := io.WriteString(deaf, "big\n"); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		deaf.Close()
	}
	eventually(t, "the goroutines are as few as before", func() bool { return runtime.NumGoroutine() <= before })
}

func BenchmarkRequest(b *testing.B) {
	s := serveLines(b)
	p := newProxy(b, s.Addr().String())
	direct, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer direct.Close()
	for _, way := range []struct {
		name string
		conn net.Conn
	}{{"direct", direct}, {"proxy", dial(b, p)}} {
		b.Run(way.name, func(b *testing.B) {
			_ = way.conn.SetDeadline(time.Time{})
			buf := make([]byte, 64)
			for b.Loop() {
				if _, err := io.WriteString(way.conn, "x\n"); err != nil {
					b.Fatal(err)
				}
				if _, err := way.conn.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

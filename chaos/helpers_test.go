package chaos_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

const patience = 10 * time.Second

// lineServer answers each line with "<n> <line>", n counted over all connections; "big" gets 4 MiB more, in many
// writes. It tells how many lines it executed and keeps its connections until the client ends them.
type lineServer struct {
	net.Listener
	executed atomic.Int64
	open     atomic.Int64
}

func serveLines(t testing.TB) *lineServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lineServer{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.open.Add(1)
			go s.serve(c)
		}
	}()
	return s
}

func (s *lineServer) serve(c net.Conn) {
	defer s.open.Add(-1)
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		n := s.executed.Add(1)
		if _, err := fmt.Fprintf(c, "%d %s\n", n, lines.Text()); err != nil {
			return
		}
		if lines.Text() == "big" {
			for range 64 {
				if _, err := c.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
					return
				}
			}
			s.executed.Add(1000) // seen by tests that ask whether the whole answer was given
		}
	}
}

func newProxy(t testing.TB, upstream string) *chaos.Proxy {
	t.Helper()
	p, err := chaos.NewProxy("w0", upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t testing.TB, p *chaos.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends one line and returns the bytes that came back until the end of a line or of the connection.
func ask(c net.Conn, line string) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	var got []byte
	one := make([]byte, 1)
	for {
		n, err := c.Read(one)
		got = append(got, one[:n]...)
		if err != nil || n == 1 && one[0] == '\n' {
			return strings.TrimSpace(string(got)), err
		}
	}
}

func mustAsk(t testing.TB, c net.Conn, line, want string) {
	t.Helper()
	got, err := ask(c, line)
	if err != nil || got != want {
		t.Fatalf("ask(%q) = %q, %v; want %q", line, got, err, want)
	}
}

// eventually polls a condition, bounded.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

package chaos_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
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

func TestTheReplyOfExactlyTheNamedRequestIsLost(t *testing.T) {
	for k := 1; k <= 5; k++ {
		s := serveLines(t)
		p := newProxy(t, s.Addr().String())
		c := dial(t, p)
		mustAsk(t, c, "warm", "1 warm")
		loss, err := p.LoseReply(k)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < k; i++ {
			mustAsk(t, c, "before", fmt.Sprintf("%d before", i+1))
		}
		before := time.Now()
		got, err := ask(c, "lost")
		if got != "" || !errors.Is(err, io.EOF) {
			t.Fatalf("k=%d: the client got %q, %v; want no byte and EOF", k, got, err)
		}
		if n := s.executed.Load(); n != int64(k+1) {
			t.Errorf("k=%d: the server executed %d requests, want %d", k, n, k+1)
		}
		lost := loss.Disarm()
		if !lost.Reached || !lost.Fired || lost.Forwarded.Before(before) || lost.ReplySeen.Before(lost.Forwarded) {
			t.Errorf("k=%d: report %+v", k, lost)
		}
		select {
		case <-loss.Over():
		case <-time.After(patience):
			t.Fatal("the server's side was not closed")
		}
		if lost = loss.State(); lost.Ended.Before(lost.ReplySeen) {
			t.Errorf("k=%d: ended %v before the reply was seen %v", k, lost.Ended, lost.ReplySeen)
		}
		eventually(t, "the server has no connection left", func() bool { return s.open.Load() == 0 })
		mustAsk(t, dial(t, p), "again", fmt.Sprintf("%d again", k+2)) // one shot: the next connection works
	}
}

func TestRequestsAreCountedOverAllConnectionsInOrderOfArrival(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	a, b := dial(t, p), dial(t, p)
	mustAsk(t, a, "warm", "1 warm")
	mustAsk(t, b, "warm", "2 warm")
	if _, err := p.LoseReply(3); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, a, "one", "3 one")
	mustAsk(t, b, "two", "4 two")
	if got, err := ask(b, "three"); got != "" || !errors.Is(err, io.EOF) {
		t.Fatalf("third request: %q, %v; want EOF", got, err)
	}
	mustAsk(t, a, "four", "6 four") // the other connection lives on
}

func TestARequestInSeveralPiecesIsOne(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	c := dial(t, p)
	mustAsk(t, c, "warm", "1 warm")
	loss, err := p.LoseReply(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "in "); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first piece is counted", func() bool { return p.Requests() == 2 })
	mustAsk(t, c, "pieces", "2 in pieces")
	if lost := loss.State(); lost.Reached {
		t.Fatalf("the second piece was taken for the second request: %+v", lost)
	}
	if got, err := ask(c, "second"); got != "" || !errors.Is(err, io.EOF) {
		t.Fatalf("second request: %q, %v; want EOF", got, err)
	}
}

func TestOfALostReplyInManyPiecesTheClientSeesNothingAndTheServerFinishes(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	c := dial(t, p)
	loss, err := p.LoseReply(1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c, "big"); got != "" || !errors.Is(err, io.EOF) {
		t.Fatalf("the client got %d bytes, %v; want none and EOF", len(got), err)
	}
	select {
	case <-loss.Over():
	case <-time.After(patience):
		t.Fatal("the server's side was not closed")
	}
	if n := s.executed.Load(); n != 1001 {
		t.Errorf("the server was cut off in the middle of its answer (%d)", n)
	}
}

func TestADisarmedFaultDoesNothing(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	c := dial(t, p)
	loss, err := p.LoseReply(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.LoseReply(1); !errors.Is(err, chaos.ErrArmed) {
		t.Errorf("arming twice: %v", err)
	}
	mustAsk(t, c, "one", "1 one")
	if lost := loss.Disarm(); lost.Fired || lost.Reached {
		t.Errorf("report before the request: %+v", lost)
	}
	mustAsk(t, c, "two", "2 two")
	if lost := loss.State(); lost.Fired || lost.Reached {
		t.Errorf("report after Disarm: %+v", lost)
	}
	if _, err := p.LoseReply(0); err == nil {
		t.Error("request 0 was accepted")
	}
	if _, err := p.LoseReply(1); err != nil {
		t.Errorf("arming after Disarm: %v", err)
	}
}

// serveLate takes one connection per channel, in order, and says "late" on it when its channel is closed.
func serveLate(t testing.TB, answers ...chan struct{}) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for _, answer := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				<-answer
				_, _ = io.WriteString(c, "late\n")
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestDisarmBetweenRequestAndReplyLetsTheReplyThrough(t *testing.T) {
	answer := make(chan struct{})
	p := newProxy(t, serveLate(t, answer))
	c := dial(t, p)
	loss, err := p.LoseReply(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "slow\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request is reached", func() bool { return loss.State().Reached })
	if lost := loss.Disarm(); lost.Fired {
		t.Fatalf("fired without a reply: %+v", lost)
	}
	close(answer)
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "late\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestARequestBesideTheNamedOneKeepsItsReply(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	p := newProxy(t, serveLate(t, first, second))
	loss, err := p.LoseReply(1)
	if err != nil {
		t.Fatal(err)
	}
	slow := func(n int) net.Conn {
		t.Helper()
		c := dial(t, p)
		if _, err := io.WriteString(c, "slow\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request is counted", func() bool { return p.Requests() == n })
		return c
	}
	named, beside := slow(1), slow(2)
	close(second)
	if got, err := bufio.NewReader(beside).ReadString('\n'); got != "late\n" || err != nil {
		t.Errorf("beside: got %q, %v", got, err)
	}
	close(first)
	if got, err := bufio.NewReader(named).ReadString('\n'); got != "" || !errors.Is(err, io.EOF) {
		t.Errorf("named: got %q, %v; want EOF", got, err)
	}
	if lost := loss.Disarm(); !lost.Fired {
		t.Errorf("report %+v", lost)
	}
}

func TestAServerThatDiesBeforeItsReplyEndsTheFaultUnfired(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 16))
			c.Close()
		}
	}()
	p := newProxy(t, l.Addr().String())
	loss, err := p.LoseReply(1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(dial(t, p), "x"); got != "" || err == nil {
		t.Fatalf("got %q, %v", got, err)
	}
	select {
	case <-loss.Over():
	case <-time.After(patience):
		t.Fatal("the fault is not over")
	}
	if lost := loss.State(); lost.Fired || !lost.Reached || lost.Ended.IsZero() {
		t.Errorf("report %+v", lost)
	}
	if _, err := p.LoseReply(1); err != nil {
		t.Errorf("arming again: %v", err)
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
	if _, err := p.LoseReply(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("LoseReply after Cut: %v", err)
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
	for range 20 {
		p, err := chaos.NewProxy("w", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		loss, err := p.LoseReply(2)
		if err != nil {
			t.Fatal(err)
		}
		idle := dial(t, p)
		if _, err := ask(idle, "one"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(idle, "two"); err == nil {
			t.Fatal("the reply was not lost")
		}
		select {
		case <-loss.Over():
		case <-time.After(patience):
			t.Fatal("the server's side was not closed")
		}
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

func TestManyWorkersAtOnceLoseExactlyOneReply(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	loss, err := p.LoseReply(100)
	if err != nil {
		t.Fatal(err)
	}
	var failed, answered atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		c := dial(t, p)
		wg.Go(func() {
			for range 50 {
				if _, err := ask(c, "x"); err != nil {
					failed.Add(1)
					return
				}
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() != 1 || !loss.Disarm().Fired {
		t.Errorf("%d workers lost a reply, want 1; %+v", failed.Load(), loss.State())
	}
	if e, a := s.executed.Load(), answered.Load(); e != a+1 {
		t.Errorf("the server executed %d, the clients saw %d answers; want one less", e, a)
	}
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

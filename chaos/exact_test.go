package chaos_test

import (
	"flag"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

// exact is how often each fault is tried at each place.
var exact = flag.Int("exact", 20, "try each fault at each place so many times")

// listener is a client's connection that keeps what it reads.
type listener struct {
	net.Conn
	mu  sync.Mutex
	got []byte
}

func (l *listener) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, b[:n]...)
	return n, err
}

// ears are the connections of one trial.
type ears struct {
	mu  sync.Mutex
	all []*listener
}

func (e *ears) dial(addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, &listener{Conn: c})
	return e.all[len(e.all)-1], nil
}

// take is what was read since the last time, on all connections.
func (e *ears) take() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	var got []byte
	for _, l := range e.all {
		l.mu.Lock()
		got, l.got = append(got, l.got...), nil
		l.mu.Unlock()
	}
	return got
}

// trial is one fault at one place. call makes ready, then arms, then makes the call that is to fail; wrote is read on
// another connection afterwards: how many writes of the call are there.
type trial struct {
	place   string
	writes  int    // how many the call makes
	applies bool   // they are there when the server executes the request by itself; in an open transaction they are not
	request string // how the gate is to name it
	fresh   bool   // the connection is made after arming
	call    func(arm func()) error
	wrote   func() int
}

// tally is what came of one fault at one place.
type tally struct {
	tried, all, none int
	outcomes         map[chaos.Outcome]int
	took             time.Duration
}

// try does one trial and demands everything that may be demanded of it.
func try(t *testing.T, p *chaos.Proxy, e *ears, kind chaos.Kind, c trial, sum *tally) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%v, %s: %s", kind, c.place, fmt.Sprintf(format, args...))
	}
	var armed *chaos.Armed
	var begun time.Time
	err := c.call(func() {
		e.take()
		var err error
		if armed, err = p.Arm(chaos.Fault{Kind: kind, Request: 1}); err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
	})
	if armed == nil {
		fail("not armed: %v", err)
	}
	state := armed.Disarm()
	if err == nil || !state.Fired {
		fail("the call: %v; %+v", err, state)
	}
	waitOver(t, armed)
	sum.took += time.Since(begun)
	state = armed.State()
	n := c.wrote()
	if n != 0 && n != c.writes {
		fail("%d of %d writes are there: %+v", n, c.writes, state)
	}
	applied := n == c.writes
	switch kind {
	case chaos.RequestLost, chaos.HalfRequest:
		if applied || state.Outcome() != chaos.NotExecuted {
			fail("applied %v, %+v", applied, state)
		}
	case chaos.ReplyLost, chaos.HalfReply:
		if applied != c.applies || state.Outcome() != chaos.Executed {
			fail("applied %v, want %v, %+v", applied, c.applies, state)
		}
	default:
		// A driver whose connection breaks in the middle of a statement may send a cancel after it: then the server's
		// answer is an error.
		refused := strings.HasPrefix(state.Answer, "error")
		if o := state.Outcome(); o == chaos.Executed && applied != (c.applies && !refused) || o != chaos.Executed && o != chaos.Closed {
			fail("applied %v, %+v", applied, state)
		}
	}
	if want := map[chaos.Kind]chaos.Extent{chaos.RequestLost: chaos.NotAtAll, chaos.HalfRequest: chaos.Partly}; state.Forwarded != want[kind] && state.Forwarded != chaos.Wholly {
		fail("passed on: %+v", state)
	}
	if state.Request != c.request {
		fail("the request is called %q, want %q", state.Request, c.request)
	}
	if got := e.take(); !c.fresh && (len(got) > 0) != (kind == chaos.HalfReply) {
		fail("the client got %q", got)
	}
	sum.tried++
	sum.outcomes[state.Outcome()]++
	if applied {
		sum.all++
	} else {
		sum.none++
	}
}

// waitOver waits until the server has ended the connection of a fault.
func waitOver(t testing.TB, armed *chaos.Armed) {
	t.Helper()
	select {
	case <-armed.Over():
	case <-time.After(patience):
		t.Fatalf("the server's side was not closed: %+v", armed.State())
	}
}

// tryAll tries every fault at every place and logs what came of it.
func tryAll(t *testing.T, p *chaos.Proxy, e *ears, trials []trial) {
	for _, c := range trials {
		for _, kind := range chaos.Kinds() {
			sum := tally{outcomes: map[chaos.Outcome]int{}}
			for range *exact {
				try(t, p, e, kind, c, &sum)
			}
			t.Logf("%-28s %-15v applied %3d of %3d, not at all %3d, %v a fault, known: %v",
				c.place, kind, sum.all, sum.tried, sum.none, (sum.took / time.Duration(sum.tried)).Round(time.Microsecond), sum.outcomes)
		}
	}
}

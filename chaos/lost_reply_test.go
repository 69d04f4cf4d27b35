package chaos_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

func TestTheReplyOfExactlyTheNamedRequestIsLost(t *testing.T) {
	for k := 1; k <= 5; k++ {
		s := serveLines(t)
		p := newProxy(t, s.Addr().String())
		c := dial(t, p)
		mustAsk(t, c, "warm", "1 warm")
		loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: k})
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
		if !lost.Reached || !lost.Fired || lost.ForwardedAt.Before(before) || lost.ReplySeen.Before(lost.ForwardedAt) {
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
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 3}); err != nil {
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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 2})
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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1}); !errors.Is(err, chaos.ErrArmed) {
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
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 0}); err == nil {
		t.Error("request 0 was accepted")
	}
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1}); err != nil {
		t.Errorf("arming after Disarm: %v", err)
	}
}

func TestManyWorkersAtOnceLoseExactlyOneReply(t *testing.T) {
	s := serveLines(t)
	p := newProxy(t, s.Addr().String())
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 100})
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

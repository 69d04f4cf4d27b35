package chaos_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
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
	loss, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
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
	if _, err := p.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1}); err != nil {
		t.Errorf("arming again: %v", err)
	}
}

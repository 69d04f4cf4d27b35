package chaos

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Loss is one reply that is to be lost: the server gets the request whole and executes it, the client gets the
// end of its connection and not one byte of the reply. Its methods may be called from several goroutines.
type Loss struct {
	proxy  *Proxy
	target int // the number of the request
	taken  bool
	over   chan struct{}
	state  Lost
}

// Lost is what became of a Loss.
type Lost struct {
	// Reached says that the request came; Forwarded is when its first bytes were passed to the server. A
	// request that was not reached before Disarm was never touched.
	Reached   bool
	Forwarded time.Time
	// Fired says that the server answered it and the answer was withheld; ReplySeen is when its first bytes
	// came. A server that answers in one write had executed the request before that moment. One that answers
	// while it still works (a result larger than its buffer, several statements each with an answer) had begun.
	Fired     bool
	ReplySeen time.Time
	// Ended is when the server ended that connection. After it nothing of this request can take effect any
	// more: it has, or it never will. Zero: not yet.
	Ended time.Time
}

// LoseReply arms one fault: the reply to the k-th request from now on is lost, k from 1, counted over all
// connections of this proxy in the order in which they come. One fault can be armed at a time; it is over when it
// fired, when its connection ended without a reply, or by Disarm. Requests that are under way do not count.
func (p *Proxy) LoseReply(k int) (*Loss, error) {
	if k < 1 {
		return nil, fmt.Errorf("chaos: proxy %s: lose reply: request %d: they are counted from 1", p.name, k)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cut:
		return nil, fmt.Errorf("chaos: proxy %s: lose reply: %w", p.name, net.ErrClosed)
	case p.armed != nil:
		return nil, fmt.Errorf("chaos: proxy %s: lose reply: %w", p.name, ErrArmed)
	}
	p.armed = &Loss{proxy: p, target: p.requests + k, over: make(chan struct{})}
	return p.armed, nil
}

// ErrArmed refuses a second fault while one is armed.
var ErrArmed = errors.New("a fault is armed already")

// Disarm takes the fault back, if it is not too late, and says what it did. After it, the fault does nothing more:
// a reply that has not begun by then is passed on.
func (l *Loss) Disarm() Lost {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.taken = true
	if l.proxy.armed == l {
		l.proxy.armed = nil
	}
	return l.state
}

// State says what became of the fault so far.
func (l *Loss) State() Lost {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.state
}

// Over is closed when the connection of the request has ended on the server's side; State().Ended is set then. It
// is never closed if the request does not come, or if its reply was passed on.
func (l *Loss) Over() <-chan struct{} { return l.over }

// wire is one connection through a proxy. Its two directions run in goroutines of their own; what they tell each
// other is under the proxy's mu, and in order: a request is noted before the server can see it, a reply before
// the client can.
type wire struct {
	proxy            *Proxy
	client, upstream *net.TCPConn

	asked bool  // the client has spoken and the server has not yet answered
	loss  *Loss // the fault on the request under way, or that ended this connection
}

// requested notes bytes from the client.
func (w *wire) requested() {
	p := w.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.asked {
		return // the rest of a request
	}
	w.asked = true
	p.requests++
	if p.armed != nil && p.armed.target == p.requests {
		w.loss = p.armed
		w.loss.state.Reached, w.loss.state.Forwarded = true, time.Now()
	}
}

// replied notes bytes from the server, and says whether they are to be lost.
func (w *wire) replied(at time.Time) bool {
	p := w.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.asked {
		return false // the rest of a reply, or a word unasked
	}
	w.asked = false
	l := w.loss
	if l == nil {
		return false
	}
	if l.taken {
		w.loss = nil
		return false
	}
	p.armed = nil
	l.taken = true
	l.state.Fired, l.state.ReplySeen = true, at
	return true
}

// requestsOver tells the server, and only now, that its client is gone. It goes on executing what it was given,
// and what it answers is still read.
func (w *wire) requestsOver() {
	defer w.proxy.running.Done()
	_ = w.upstream.CloseWrite() // fails if the server has gone first, and then it knows
}

// repliesOver ends the client's side, when everything that it may see has been written: after the server ended
// its own, or before, if a reply was lost.
func (w *wire) repliesOver() {
	defer w.proxy.running.Done()
	_ = w.client.Close()
}

// ended notes that the server has ended its side: nothing more can come of this connection.
func (w *wire) ended() {
	p := w.proxy
	defer p.running.Done()
	_ = w.upstream.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wires, w)
	if l := w.loss; l != nil && l.state.Ended.IsZero() {
		l.state.Ended = time.Now()
		close(l.over)
		if p.armed == l {
			p.armed = nil
		}
	}
}

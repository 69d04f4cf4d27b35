package chaos

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Kind is what is broken.
type Kind int

const (
	// RequestLost: nothing of the request reaches the server, and the connection ends.
	RequestLost Kind = iota + 1
	// ReplyLost: the server executes the request, and the client gets not one byte of the reply and the end of its
	// connection.
	ReplyLost
	// HalfRequest: the server gets a beginning of the request that brings it to execute nothing, and the end of the
	// connection; the client gets the end alone.
	HalfRequest
	// HalfReply: the server executes the request, and the client gets about half of the reply, which ends in the
	// middle of a message, and then the end of its connection.
	HalfReply
	// ConnectionCut: the connection ends the moment the request has been passed on, whatever the server is at then.
	// The server hears that its client is gone right behind the request; what it answers nobody gets, but the gate
	// hears it, so that the outcome does not stay open for ever.
	ConnectionCut
)

// Kinds lists them all.
func Kinds() []Kind { return []Kind{RequestLost, ReplyLost, HalfRequest, HalfReply, ConnectionCut} }

// String is the kind as a history names it.
func (k Kind) String() string {
	switch k {
	case RequestLost:
		return "request lost"
	case ReplyLost:
		return "reply lost"
	case HalfRequest:
		return "half a request"
	case HalfReply:
		return "half a reply"
	case ConnectionCut:
		return "connection cut"
	}
	return fmt.Sprintf("kind %d", int(k))
}

func (k Kind) valid() bool { return k >= RequestLost && k <= ConnectionCut }

// ofReply reports whether the server gets the request whole and the client not the reply.
func (k Kind) ofReply() bool { return k == ReplyLost || k == HalfReply }

// Fault is one thing to break: this kind, at the Request-th request from now on, counted from 1 over all connections
// of a proxy in the order in which they come.
type Fault struct {
	Kind    Kind
	Request int
}

// ErrArmed refuses a second fault while one is armed.
var ErrArmed = errors.New("a fault is armed already")

// Armed is a fault that was armed. Its methods may be called from several goroutines.
type Armed struct {
	proxy  *Proxy
	target int // the number of the request
	taken  bool
	over   chan struct{}
	state  State
}

// Arm arms a fault. One can be armed at a time; it is over when it fired, when its connection ended without a reply,
// or by Disarm. Requests that are under way do not count, nor do those that execute nothing.
func (p *Proxy) Arm(f Fault) (*Armed, error) {
	if !f.Kind.valid() || f.Request < 1 {
		return nil, fmt.Errorf("chaos: proxy %s: arm %v at request %d: requests are counted from 1", p.name, f.Kind, f.Request)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cut:
		return nil, fmt.Errorf("chaos: proxy %s: arm %v: %w", p.name, f.Kind, net.ErrClosed)
	case p.armed != nil:
		return nil, fmt.Errorf("chaos: proxy %s: arm %v: %w", p.name, f.Kind, ErrArmed)
	}
	p.armed = &Armed{proxy: p, target: p.requests + f.Request, over: make(chan struct{}), state: State{Kind: f.Kind}}
	return p.armed, nil
}

// Disarm takes the fault back, if it is not too late, and says what it did so far. After it, a fault that has not
// fired does nothing more, and what becomes of a request that it has reached is still noted, up to its reply.
func (a *Armed) Disarm() State {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.taken = true
	if a.proxy.armed == a {
		a.proxy.armed = nil
	}
	return a.state
}

// State says what became of the fault, and of its request, so far.
func (a *Armed) State() State {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.state
}

// Over is closed when the connection of the request has ended on the server's side; State().Ended is set then. It
// is never closed if the request does not come, or if its reply was passed on.
func (a *Armed) Over() <-chan struct{} { return a.over }

// fired notes that a fault has done what cannot be taken back. The proxy's mu is held.
func (a *Armed) fired(at time.Time) {
	if a.state.Fired {
		return
	}
	a.state.Fired, a.state.FiredAt = true, at
	if a.proxy.armed == a {
		a.proxy.armed = nil
	}
}

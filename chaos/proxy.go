package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	dialTimeout  = 5 * time.Second
	closeTimeout = 5 * time.Second
)

// Proxy stands between one worker and one upstream, on a loopback port of its own, and breaks what it is told to
// break at exactly the request that was named. Its methods may be called from several goroutines.
//
// A request is one step: what the client says before it waits for an answer, in whatever pieces, and with all that
// it says beside it until everything is answered (a batch, a pipeline), if it brings the server to execute anything.
// The handshake of a new connection, a ping, a prepare, a goodbye are no steps. See [Redis], [Postgres] and, for every
// other protocol, [QuietTime].
//
// Accepting and dialling are not toxiproxy's: there the two directions of a connection do not know each other, a peer
// that stops reading leaves goroutines behind for good, nobody can wait for their end, and a connection is closed both
// ways at once, which tells a Postgres in the middle of a statement to roll back what a moment later it would have
// done.
type Proxy struct {
	name, upstream string
	protocol       Protocol
	listener       net.Listener
	links          *links
	alive          context.Context // ends with Cut
	die            context.CancelFunc
	running        sync.WaitGroup // the accept loop, its dials, both directions of each connection

	mu       sync.Mutex
	cut      bool
	number   int // connections so far
	requests int // requests so far
	armed    *Armed
	wires    map[*wire]struct{}
	spoken   []string // how connections were read, each way once
	trouble  error
	plain    int   // the number of the last connection that spoke without encryption
	down     error // the upstream could not be reached the last time
}

// Options say what a proxy stands before.
type Options struct {
	Name     string   // for people
	Upstream string   // host:port; it is dialled once per connection and need not be up yet
	Protocol Protocol // how requests are found; the zero value finds out
	_        struct{}
}

// NewProxy is [Open] with a name and an upstream.
func NewProxy(name, upstream string) (*Proxy, error) {
	return Open(Options{Name: name, Upstream: upstream})
}

// Open opens a proxy. Close it.
func Open(o Options) (*Proxy, error) {
	if !slices.Contains([]Protocol{Detected, Redis, Postgres, QuietTime}, o.Protocol) {
		return nil, fmt.Errorf("chaos: proxy %s: protocol %q is none of %q, %q, %q", o.Name, o.Protocol, Redis, Postgres, QuietTime)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("chaos: proxy %s: %w", o.Name, err)
	}
	p := &Proxy{name: o.Name, upstream: o.Upstream, protocol: o.Protocol, listener: listener, wires: map[*wire]struct{}{}}
	p.alive, p.die = context.WithCancel(context.Background())
	if p.links, err = newLinks(o.Name, p.Addr(), o.Upstream); err != nil {
		return nil, errors.Join(fmt.Errorf("chaos: proxy %s: %w", o.Name, err), listener.Close())
	}
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Addr is where the worker dials: host:port on loopback. It stays the same until Close, and nobody listens there
// after Cut.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Requests is how many requests have come so far, on all connections.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Unanswered is on how many connections the server owes an answer to a step, or may still be at one that a client
// asked for which is gone. If it is zero, nothing that the gate passed on so far can still take effect, but for what
// was said in a protocol that it does not know. A request that its client wrote and gave up on may be on its way to
// the gate.
func (p *Proxy) Unanswered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for w := range p.wires {
		if w.counted {
			n++
		}
	}
	return n
}

// Protocol says how requests were found so far: "redis", "postgres", "quiet time", several of them if connections
// differed, and why, where the gate lost its way. It is empty before anything was said.
func (p *Proxy) Protocol() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.spoken, "; ")
}

// spoke notes how a connection is read. The mu is held.
func (p *Proxy) spoke(how string) {
	if !slices.Contains(p.spoken, how) {
		p.spoken = append(p.spoken, how)
	}
}

// Trouble is why no connection could be used, in words for whoever plugged in the store: the client insists on TLS,
// or the upstream cannot be reached. It is nil again as soon as one could.
func (p *Proxy) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	return p.trouble
}

// Cut ends every connection for good and takes no new one, as when the worker's process dies: the client's side
// is closed at once. The server is told that its client is gone once it has been given what was on its way, and
// may still finish what it was asked.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.cut = true
	wires := make([]*wire, 0, len(p.wires))
	for w := range p.wires {
		wires = append(wires, w)
	}
	p.mu.Unlock()
	p.die()
	p.listener.Close()
	for _, w := range wires {
		w.client.Close()
	}
}

// Close is Cut, and it ends the server's side too and returns when all goroutines are through, within seconds.
func (p *Proxy) Close() error {
	p.Cut()
	p.mu.Lock()
	for w := range p.wires {
		w.upstream.Close()
	}
	p.mu.Unlock()
	through := make(chan struct{})
	go func() {
		defer close(through)
		p.running.Wait()
	}()
	select {
	case <-through:
		return nil
	case <-time.After(closeTimeout):
		return fmt.Errorf("chaos: proxy %s: close: connections still open after %v", p.name, closeTimeout)
	}
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // Cut closed it
		}
		p.running.Add(1)
		go func() {
			defer p.running.Done()
			p.connect(client.(*net.TCPConn))
		}()
	}
}

// connect joins a client to the upstream. A client whose upstream does not answer sees its connection end.
func (p *Proxy) connect(client *net.TCPConn) {
	dialer := net.Dialer{Timeout: dialTimeout}
	upstream, err := dialer.DialContext(p.alive, "tcp", p.upstream)
	if err != nil {
		client.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.down = fmt.Errorf("chaos: proxy %s: the upstream cannot be reached: %w", p.name, err)
		return
	}
	w := &wire{proxy: p, client: client, upstream: upstream.(*net.TCPConn), end: make(chan struct{})}
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		client.Close()
		upstream.Close()
		return
	}
	p.down = nil
	p.number++
	w.number = p.number
	p.wires[w] = struct{}{}
	p.mu.Unlock()
	p.running.Add(3) // requestsOver, repliesOver, ended
	p.links.join(w, fmt.Sprintf("%s#%d", p.name, w.number))
}

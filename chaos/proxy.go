package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const (
	dialTimeout  = 5 * time.Second
	closeTimeout = 5 * time.Second
)

// Proxy stands between one worker and one upstream, on a loopback port of its own, and breaks what it is told to
// break at exactly the request that was named. It knows no protocol. Its methods may be called from several
// goroutines.
//
// A request is what the client sends after it has heard from the server, up to the next time it hears from it:
// right for a client that waits for each answer. Whatever the driver sends counts: the handshake of a new
// connection, a ping, a deallocation, a goodbye. A server that speaks unasked in the middle of a request
// (a notification) is taken for answering it.
//
// The links are toxiproxy's, so that its toxics can be chained behind ours. Accepting and dialling are not: there
// the two directions of a connection do not know each other, a peer that stops reading leaves goroutines behind
// for good, nobody can wait for their end, and a connection is closed both ways at once, which tells a Postgres
// in the middle of a statement to roll back what a moment later it would have done.
type Proxy struct {
	name, upstream string
	listener       net.Listener
	links          *toxiproxy.ToxicCollection
	server         *toxiproxy.ApiServer // the links ask it whether to keep metrics (no); it serves nothing
	alive          context.Context      // ends with Cut
	die            context.CancelFunc
	running        sync.WaitGroup // the accept loop, its dials, both directions of each connection

	linking sync.Mutex // held while the two links of one connection are made
	opening *wire      // that connection, for tap.NewState

	mu       sync.Mutex
	cut      bool
	number   int // connections so far
	requests int // requests so far
	armed    *Loss
	wires    map[*wire]struct{}
}

// NewProxy opens a proxy to upstream (host:port), which is dialled once per connection and need not be up yet.
// The name is for people. Close it.
func NewProxy(name, upstream string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("chaos: proxy %s: %w", name, err)
	}
	p := &Proxy{name: name, upstream: upstream, listener: listener, wires: map[*wire]struct{}{}}
	p.alive, p.die = context.WithCancel(context.Background())
	// Made as literals, without toxiproxy's constructors: those want a logger, and its zero value here is silent.
	p.server = &toxiproxy.ApiServer{Metrics: toxiproxy.NewMetricsContainer(nil)}
	p.links = toxiproxy.NewToxicCollection(&toxiproxy.Proxy{Name: name, Listen: p.Addr(), Upstream: upstream})
	for _, d := range []stream.Direction{stream.Upstream, stream.Downstream} {
		// The collection makes toxics by the name of their type, from a registry of the whole process. Asking for
		// one that is in it and putting ours in its place, before any link exists, leaves that registry alone,
		// and gives each tap its proxy, which a registry of types could not.
		wrapper, err := p.links.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"name":"tap_%s","type":"noop","stream":%q,"toxicity":1}`, d, d)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("chaos: proxy %s: %w", name, err), listener.Close())
		}
		wrapper.Toxic = &tap{proxy: p, direction: d}
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
		return
	}
	w := &wire{proxy: p, client: client, upstream: upstream.(*net.TCPConn)}
	p.linking.Lock()
	defer p.linking.Unlock()
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		client.Close()
		upstream.Close()
		return
	}
	p.number++
	name := fmt.Sprintf("%s#%d", p.name, p.number)
	p.wires[w] = struct{}{}
	p.mu.Unlock()

	p.running.Add(3) // requestsOver, repliesOver, ended
	p.opening = w
	p.links.StartLink(p.server, name+"up", client, &sink{w, w.upstream, w.requestsOver}, stream.Upstream)
	p.links.StartLink(p.server, name+"down", w.upstream, &sink{w, client, w.repliesOver}, stream.Downstream)
	p.opening = nil
}

// sink is where a link writes. It takes everything, also when the peer is gone: a link stops reading at an error,
// and all before it in the chain would wait for ever to hand it the next chunk.
type sink struct {
	wire *wire
	to   *net.TCPConn
	over func() // the link has nothing more to write
}

func (s *sink) Write(b []byte) (int, error) {
	if _, err := s.to.Write(b); err != nil && s.to == s.wire.client {
		// The other direction learns that the client is gone. Of a server that is gone it learns by reading,
		// after what that server had still said.
		_ = s.wire.client.Close()
	}
	return len(b), nil
}

func (s *sink) Close() error {
	s.over()
	return nil
}

// tap is the toxic that sees one direction of every connection.
type tap struct {
	proxy     *Proxy
	direction stream.Direction
}

// NewState is called while a link is made, and says to which connection the link belongs.
func (t *tap) NewState() any { return t.proxy.opening }

// Pipe passes chunks on, and nothing of a reply that is to be lost.
func (t *tap) Pipe(stub *toxics.ToxicStub) {
	w := stub.State.(*wire)
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			switch {
			case chunk == nil:
				if t.direction == stream.Downstream {
					w.ended()
				}
				stub.Close()
				return
			case t.direction == stream.Upstream:
				w.requested()
			case w.replied(chunk.Timestamp):
				// Closing the chain's end, and not the connection, lets the client have all that was sent before.
				stub.Close()
				for range stub.Input { // swallowed until the server ends its side
					continue
				}
				w.ended()
				return
			}
			stub.Output <- chunk
		}
	}
}

var (
	_ toxics.StatefulToxic = (*tap)(nil)
	_ io.WriteCloser       = (*sink)(nil)
)

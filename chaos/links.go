package chaos

import (
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

// links are the two directions of each connection of a proxy. They are toxiproxy's, so that its toxics can be chained
// behind ours.
type links struct {
	toxics *toxiproxy.ToxicCollection
	server *toxiproxy.ApiServer // the links ask it whether to keep metrics (no); it serves nothing

	making  sync.Mutex // held while the two links of one connection are made
	opening *wire      // that connection, for tap.NewState
}

func newLinks(name, listen, upstream string) (*links, error) {
	// Made as literals, without toxiproxy's constructors: those want a logger, and its zero value here is silent.
	l := &links{server: &toxiproxy.ApiServer{Metrics: toxiproxy.NewMetricsContainer(nil)}}
	l.toxics = toxiproxy.NewToxicCollection(&toxiproxy.Proxy{Name: name, Listen: listen, Upstream: upstream})
	for _, d := range []stream.Direction{stream.Upstream, stream.Downstream} {
		// The collection makes toxics by the name of their type, from a registry of the whole process. Asking for
		// one that is in it and putting ours in its place, before any link exists, leaves that registry alone,
		// and gives each tap its links, which a registry of types could not.
		wrapper, err := l.toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"name":"tap_%s","type":"noop","stream":%q,"toxicity":1}`, d, d)))
		if err != nil {
			return nil, err
		}
		wrapper.Toxic = &tap{links: l, direction: d}
	}
	return l, nil
}

// join lets the bytes of a connection flow. It calls requestsOver, repliesOver and ended once each, in time.
func (l *links) join(w *wire, name string) {
	l.making.Lock()
	defer l.making.Unlock()
	l.opening = w
	l.toxics.StartLink(l.server, name+"up", w.client, &sink{w, w.upstream, w.requestsOver}, stream.Upstream)
	l.toxics.StartLink(l.server, name+"down", w.upstream, &sink{w, w.client, w.repliesOver}, stream.Downstream)
	l.opening = nil
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
	links     *links
	direction stream.Direction
}

// NewState is called while a link is made, and says to which connection the link belongs.
func (t *tap) NewState() any { return t.links.opening }

// Pipe passes on what the gate lets through.
func (t *tap) Pipe(stub *toxics.ToxicStub) {
	w := stub.State.(*wire)
	if t.direction == stream.Upstream {
		requests(w, stub)
	} else {
		replies(w, stub)
	}
}

func requests(w *wire, stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				send(stub, w.left(), time.Now())
				stub.Close()
				return
			}
			out, over := w.sent(chunk.Data)
			send(stub, out, chunk.Timestamp)
			if over {
				stub.Close()
				for range stub.Input { // swallowed until the client's side has ended
					continue
				}
				return
			}
		}
	}
}

func replies(w *wire, stub *toxics.ToxicStub) {
	for over := false; !over; {
		select {
		case <-stub.Interrupt:
			return
		case <-w.end:
			over = true
		case chunk := <-stub.Input:
			if chunk == nil {
				w.ended()
				stub.Close()
				return
			}
			var out []byte
			out, over = w.heard(chunk.Data, chunk.Timestamp)
			send(stub, out, chunk.Timestamp)
		}
	}
	// Closing the chain's end, and not the connection, lets the client have all that was sent before.
	stub.Close()
	for chunk := range stub.Input { // heard, and not passed on, until the server ends its side
		w.heard(chunk.Data, chunk.Timestamp)
	}
	w.ended()
}

// maxChunk is how much a link reads and writes at once. The link's end loses bytes of chunks that are larger.
const maxChunk = 32 << 10

func send(stub *toxics.ToxicStub, b []byte, at time.Time) {
	for len(b) > 0 {
		n := min(len(b), maxChunk)
		stub.Output <- &stream.StreamChunk{Data: b[:n], Timestamp: at}
		b = b[n:]
	}
}

var (
	_ toxics.StatefulToxic = (*tap)(nil)
	_ io.WriteCloser       = (*sink)(nil)
)

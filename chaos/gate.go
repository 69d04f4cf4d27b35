package chaos

import (
	"cmp"
	"fmt"
	"net"
	"time"
)

// wire is one connection through a proxy. Its two directions run in goroutines of their own; what they tell each
// other is under the proxy's mu, and in order: a request is noted before the server can see it, a reply before
// the client can.
//
// A request is held back until it is whole, and with it those that came before it in the same breath, so that what
// becomes of it is decided before the server has seen any of it.
type wire struct {
	proxy            *Proxy
	number           int
	client, upstream *net.TCPConn
	end              chan struct{} // closed when the client's side is to end

	framer  framer // nil until the protocol is known
	refused bool   // the client was told that there is no encryption, and has not gone on without

	held     []byte // from the client, not yet passed on
	unit     int    // where in held the request begins that is being read
	runs     int    // how much of held brings the server to execute something; 0: none does
	word     string // the first thing in it that is executed
	partial  string // what the request is that is being read
	commands int

	counted bool   // a step is under way
	fault   *Armed // aimed at it, or what ended this connection
	over    bool   // nothing more of the client's is passed on

	reply    []byte // kept of a reply of which the client is to get a part
	ends     []int  // where in reply messages end
	withheld bool
}

const (
	// maxHeld bounds what is held back of one request. Of one that is longer it is taken for granted that it
	// executes something, and it is passed on as it comes.
	maxHeld = 1 << 20
	// maxReply bounds what is kept of a reply.
	maxReply = 1 << 20
)

// sent takes what the client said and answers what of it is to be passed on now, and whether that is the last.
func (w *wire) sent(b []byte) (out []byte, over bool) {
	w.proxy.mu.Lock()
	defer w.proxy.mu.Unlock()
	from := len(w.held)
	if from == 0 {
		w.held = b
	} else {
		w.held = append(w.held, b...)
	}
	if w.framer == nil {
		protocol, known, err := w.proxy.detect(w.held)
		if err != nil {
			w.refuse(err)
			return nil, true
		}
		if !known {
			return nil, false
		}
		w.speak(protocol, nil)
		from = 0
	}
	w.read(from)
	return w.pass(false)
}

// left takes the end of what the client says, and answers what of it was still held back.
func (w *wire) left() []byte {
	w.proxy.mu.Lock()
	defer w.proxy.mu.Unlock()
	if w.refused && w.proxy.plain < w.number {
		w.proxy.trouble = fmt.Errorf("chaos: proxy %s: the client asked for TLS, was told that there is none, and left: connect without it (sslmode=disable)", w.proxy.name)
	}
	if w.over || w.framer == nil && len(w.held) == 0 {
		return nil
	}
	out, _ := w.pass(true)
	return out
}

// read finds the requests in what is held, from here on.
func (w *wire) read(at int) {
	for at < len(w.held) {
		n, r, err := w.framer.sent(w.held[at:])
		if err != nil {
			w.speak(QuietTime, err)
			_, r, _ = w.framer.sent(nil)
			n, r.runs = len(w.held)-at, len(w.held)-w.unit
		}
		at += n
		if r.runs > 0 && w.runs == 0 {
			w.runs, w.word = w.unit+r.runs, r.word
		}
		if !r.whole {
			w.partial = r.word
			continue
		}
		w.partial = ""
		w.commands += r.commands
		if r.plain {
			w.refused = false
			w.proxy.plain, w.proxy.trouble = max(w.proxy.plain, w.number), nil
		}
		if r.refusal != 0 {
			// The server has not been told anything yet, so that nobody else writes to the client now.
			_, _ = w.client.Write([]byte{r.refusal})
			w.refused = true
			w.held = append(w.held[:w.unit], w.held[at:]...)
			at = w.unit
		}
		w.unit = at
	}
}

// pass answers what of that which is held is to be passed on now; everything, if the client has left.
func (w *wire) pass(last bool) (out []byte, over bool) {
	mid := w.framer != nil && w.framer.mid()
	switch {
	case w.counted: // it joins what is under way
	case mid && !last && len(w.held) < maxHeld:
		return nil, false
	case w.runs == 0 && (last || !mid): // set-up
	default:
		w.begin()
	}
	out, over = w.broken(w.held, mid)
	w.held, w.unit, w.runs, w.word, w.commands = nil, 0, 0, "", 0
	w.over = over
	return out, over
}

// begin counts the step whose first bytes are held, and puts the fault on it that is aimed at it.
func (w *wire) begin() {
	p := w.proxy
	p.requests++
	w.counted = true
	if w.runs == 0 {
		w.runs, w.word = len(w.held), cmp.Or(w.partial, "a large request")
	}
	a := p.armed
	if a == nil || a.target != p.requests {
		return
	}
	w.fault = a
	s := &a.state
	s.Reached, s.Request, s.Connection, s.Backend = true, w.word, w.number, w.framer.backend()
	s.Protocol = Protocol(w.framer.name())
	if w.commands > 1 {
		s.Request = fmt.Sprintf("%s and %d more", w.word, w.commands-1)
	}
}

// broken answers what of b the fault leaves.
func (w *wire) broken(b []byte, mid bool) (out []byte, over bool) {
	a := w.fault
	if a == nil || len(b) == 0 || !w.counted {
		return b, false
	}
	s, now := &a.state, time.Now()
	acts := !a.taken && !s.Fired
	if acts && s.Forwarded == NotAtAll {
		switch s.Kind {
		case RequestLost:
			a.fired(now)
			w.counted = false
			return nil, true
		case HalfRequest:
			a.fired(now)
			s.Forwarded, s.ForwardedAt = Partly, now
			return b[:max(1, min(w.runs, len(b))/2)], true
		}
	}
	if s.Forwarded == NotAtAll {
		s.ForwardedAt = now
	}
	if s.Forwarded = Wholly; mid {
		s.Forwarded = Partly
	}
	if acts && s.Kind == ConnectionCut && !mid {
		a.fired(now)
		return b, true
	}
	return b, false
}

// speak begins to read the connection as this protocol, for a reason if it did not from the start.
func (w *wire) speak(protocol Protocol, why error) {
	if why != nil {
		w.proxy.spoke(fmt.Sprintf("%s, then %s (%v)", w.framer.name(), protocol, why))
		if a := w.fault; a != nil && !(a.state.Fired && a.state.Forwarded != Wholly) {
			a.state.Protocol = protocol // what is heard from now on proves nothing
		}
	} else {
		w.proxy.spoke(string(protocol))
	}
	w.framer = protocol.framer()
}

// refuse ends a connection that the gate cannot read.
func (w *wire) refuse(why error) {
	w.proxy.trouble = fmt.Errorf("chaos: proxy %s: %w", w.proxy.name, why)
	w.over = true
	w.held = nil
}

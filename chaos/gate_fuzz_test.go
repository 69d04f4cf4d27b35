package chaos

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// gated lets a gate take what a client says in pieces, and answers what is passed on.
func gated(p *Proxy, said []string) (w *wire, passed string) {
	w = &wire{proxy: p, client: &net.TCPConn{}, end: make(chan struct{})}
	var all strings.Builder
	for _, piece := range said {
		out, over := w.sent([]byte(piece))
		all.Write(out)
		if over {
			return w, all.String()
		}
	}
	all.Write(w.left())
	return w, all.String()
}

// executes reports whether a server that gets this and no more would execute anything of it.
func executes(protocol Protocol, text string) bool {
	f := protocol.framer()
	for b := []byte(text); len(b) > 0; {
		n, r, err := f.sent(b)
		if err != nil {
			return false
		}
		if r.runs > 0 {
			return true
		}
		b = b[n:]
	}
	return false
}

// FuzzGate holds the gate to what it promises of bytes, whatever a client says and in whatever pieces: without a fault
// all is passed on, and of a lost or half request nothing that a server would execute.
func FuzzGate(f *testing.F) {
	f.Add(cmd("ping")+cmd("set", "k", "v")+cmd("get", "k"), []byte{0, 3, 1})
	f.Add("*1\r\n$3\r\nGET\r\n*what?\r\n", []byte{})
	f.Add(said(startup(), &pgproto3.Parse{Query: "x"}, &pgproto3.Sync{}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}), []byte{0, 0, 7})
	f.Add(said(startup(), &pgproto3.Query{String: "insert"}, &pgproto3.CopyData{}, &pgproto3.CopyFail{}), []byte{255})
	f.Add(said(&pgproto3.SSLRequest{}, startup(), &pgproto3.Query{String: ";"}, &pgproto3.Query{String: "x"}), []byte{9})
	f.Fuzz(func(t *testing.T, text string, cuts []byte) {
		if len(text) > 0 && text[0] == tlsHandshake {
			return
		}
		p := &Proxy{}
		w, passed := gated(p, pieces(text, cuts))
		if passed != text && w.proxy.trouble == nil && !strings.Contains(text, "\x00\x00\x00\x08\x04\xd2\x16") {
			t.Fatalf("of %q was passed on %q", text, passed)
		}
		for _, kind := range []Kind{RequestLost, HalfRequest} {
			p := &Proxy{}
			armed, err := p.Arm(Fault{Kind: kind, Request: 1})
			if err != nil {
				t.Fatal(err)
			}
			_, passed := gated(p, pieces(text, cuts))
			state := armed.State()
			if !state.Fired || state.Protocol == QuietTime {
				continue
			}
			if executes(state.Protocol, passed) || state.Outcome() != NotExecuted {
				t.Fatalf("%v: of %q was passed on %q: %+v", kind, text, passed, state)
			}
			if (kind == HalfRequest) != (state.Forwarded == Partly) || len(passed) >= len(text) {
				t.Fatalf("%v: of %q was passed on %q: %+v", kind, text, passed, state)
			}
		}
	})
}

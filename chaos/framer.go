package chaos

import (
	"encoding/binary"
	"errors"
)

// framer finds requests and replies in the two byte streams of one connection. It keeps no bytes, only where it is
// in them, and how a stream is cut into pieces makes no difference to what it finds. An error says that it has lost
// its way, or that the protocol is about to do what it cannot follow: it is not asked again.
type framer interface {
	// name is the protocol.
	name() string
	// sent reads on in what the client says, at most to the end of the request that it is in, and answers how many
	// bytes it read, and what it knows of that request.
	sent(b []byte) (n int, r request, err error)
	// heard reads on in what the server says, at most to the end of the message that it is in, and answers how many
	// bytes it read, and whether that message has ended.
	heard(b []byte) (n int, end bool, err error)
	// mid reports whether a request has begun and is not whole.
	mid() bool
	// idle reports whether no request has begun, and nothing that was asked waits for its answer.
	idle() bool
	// invites reports whether the last that the server said is no answer, but asks for the rest of a request.
	invites() bool
	// answer is the last thing worth telling that the server said since it owed nothing, in a word and without data.
	answer() string
	// backend is the number by which the server calls this connection's process. Zero: none, or not known.
	backend() uint32
}

// request is what a framer knows of the request that it is in.
type request struct {
	whole    bool
	runs     int    // how many of its bytes bring the server to execute the first of what it holds; 0: none do
	word     string // what that is
	commands int    // how much it holds that is executed
	refusal  byte   // what the client is told, by us, instead of the server that never sees it; 0: nothing
	plain    bool   // the client begins to speak without encryption
}

// Protocol names a way to find requests.
type Protocol string

const (
	// Detected takes the protocol from the first bytes of each connection.
	Detected Protocol = ""
	// Redis finds the commands of RESP 2 and 3.
	Redis Protocol = "redis"
	// Postgres finds the frontend messages of protocol 3 up to Query, Sync or Flush.
	Postgres Protocol = "postgres"
	// QuietTime knows no protocol: a request is what the client says after it has heard from the server. All that
	// is said counts, a handshake and a goodbye too, and that half a request executes nothing is not known.
	QuietTime Protocol = "quiet time"
)

func (p Protocol) framer() framer {
	switch p {
	case Redis:
		return &resp{}
	case Postgres:
		return newPostgres()
	}
	return &quiet{}
}

// errTLS: what a client says under TLS is hidden from the gate.
var errTLS = errors.New("the client speaks TLS, under which no request can be recognised: connect without it (redis:// and not rediss://, sslmode=disable, no sslnegotiation=direct)")

// tlsHandshake is the first byte of whoever speaks TLS from the start.
const tlsHandshake = 0x16

// detect takes the protocol from the first bytes that a client sends, unless it was told. known is false if more are
// needed.
func (p *Proxy) detect(b []byte) (protocol Protocol, known bool, err error) {
	switch {
	case len(b) == 0:
		return "", false, nil
	case p.protocol == QuietTime:
		return QuietTime, true, nil
	case b[0] == tlsHandshake:
		return "", false, errTLS
	case p.protocol != Detected:
		return p.protocol, true, nil
	case b[0] == '*':
		return Redis, true, nil
	case b[0] != 0:
		return QuietTime, true, nil
	case len(b) < 8:
		return "", false, nil
	}
	size, code := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if size >= 8 && size <= maxStartup && startupCode(code) {
		return Postgres, true, nil
	}
	return QuietTime, true, nil
}

// quiet is the framer for a protocol that is not known.
type quiet struct{ waiting bool }

func (*quiet) name() string { return string(QuietTime) }

func (q *quiet) sent(b []byte) (int, request, error) {
	q.waiting = true
	return len(b), request{whole: true, runs: len(b), word: "request", commands: 1}, nil
}

func (q *quiet) heard(b []byte) (int, bool, error) {
	q.waiting = false
	return len(b), false, nil
}

func (*quiet) mid() bool       { return false }
func (q *quiet) idle() bool    { return !q.waiting }
func (*quiet) invites() bool   { return false }
func (*quiet) answer() string  { return "" }
func (*quiet) backend() uint32 { return 0 }

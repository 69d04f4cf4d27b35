package chaos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// The codes that stand where a start-up packet has its version.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104
	maxStartup = 10000
)

func startupCode(code uint32) bool {
	return code >= codeCancel && code <= codeGSS || code>>16 == 3
}

// postgres finds the requests of the frontend/backend protocol, version 3: what the client says up to a Query, a
// Sync, a Flush or a FunctionCall; a COPY with all its data is one. Start-up, passwords, a request in which nothing is
// executed (parse, describe, close), pings, and settings changed outside a transaction are no steps. BEGIN and COMMIT
// are requests as all others are.
type postgres struct {
	in, out pgMessage
	started bool   // the start-up packet came, so that messages have types
	status  byte   // of the transaction, as the server said last: 'I' none, 'T' in one, 'E' in a failed one
	process uint32 // from BackendKeyData
	said    string

	size     int // bytes of this request so far
	r        request
	next     []byte // what the server will answer to this request, one letter each: the message's type, or 'Z'
	expected []byte // what it is still to answer to those before
	skipping bool   // it found an error and passes over everything up to a Sync
	loose    bool   // something was executed and no Sync has ended its transaction yet
	invited  bool   // the last it said is that it waits for the data of a COPY

	statements, portals map[string]statement
}

// statement is what a prepared statement holds.
type statement struct {
	word string
	calm bool
}

// maxNames bounds what is remembered of prepared statements.
const maxNames = 1 << 14

func newPostgres() *postgres {
	return &postgres{status: 'I', statements: map[string]statement{}, portals: map[string]statement{}}
}

func (*postgres) name() string      { return string(Postgres) }
func (p *postgres) mid() bool       { return p.size > 0 }
func (p *postgres) answer() string  { return p.said }
func (p *postgres) backend() uint32 { return p.process }
func (p *postgres) idle() bool      { return p.size == 0 && len(p.expected) == 0 }
func (p *postgres) invites() bool   { return p.invited }

func (p *postgres) sent(b []byte) (int, request, error) {
	n, end, err := p.in.read(b, p.started)
	p.size += n
	if err != nil {
		return n, request{}, err
	}
	if !end {
		return n, p.r, nil
	}
	if p.started {
		err = p.message(p.in.kind, p.in.body)
	} else {
		err = p.startup(p.in.body)
	}
	r := p.r
	if r.whole {
		p.r, p.size = request{}, 0
		p.expect()
	}
	return n, r, err
}

// startup reads the packet that opens a connection, or asks for encryption, or cancels what another one does.
func (p *postgres) startup(body []byte) error {
	if len(body) < 4 {
		return errors.New("a start-up packet without a version")
	}
	p.r.whole = true
	switch code := binary.BigEndian.Uint32(body); {
	case code == codeTLS || code == codeGSS:
		p.r.refusal = 'N'
	case code == codeCancel: // it gets no answer but the end of its connection
	case code>>16 == 3:
		p.started, p.r.plain = true, true
		p.next = append(p.next, 'Z')
	default:
		return errors.New("a start-up packet of an unknown version")
	}
	return nil
}

// message reads one message of the client.
func (p *postgres) message(kind byte, body []byte) error {
	switch kind {
	case 'Q':
		word, calm := readSQL(body, p.in.size, p.status)
		p.runs("query: "+word, calm)
		p.ends('Z')
	case 'F':
		p.runs("function call", false)
		p.ends('Z')
	case 'P':
		name, sql, _ := bytes.Cut(body, []byte{0})
		word, calm := readSQL(sql, p.in.size-len(name)-1, p.status)
		remember(p.statements, string(name), statement{word, calm})
		p.next = append(p.next, kind)
	case 'B':
		portal, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		remember(p.portals, string(portal), p.statements[string(name)])
		p.next = append(p.next, kind)
	case 'E':
		portal, _, _ := bytes.Cut(body, []byte{0})
		s := p.portals[string(portal)]
		if s.word == "" {
			s.word = "?"
		}
		p.runs("execute: "+s.word, s.calm && p.status == 'I')
		p.next = append(p.next, kind)
	case 'C':
		if len(body) > 1 && body[0] == 'S' {
			name, _, _ := bytes.Cut(body[1:], []byte{0})
			delete(p.statements, string(name))
		}
		p.next = append(p.next, kind)
	case 'D':
		p.next = append(p.next, kind)
	case 'S':
		if p.loose && p.r.runs == 0 {
			p.runs("sync", false)
		}
		p.ends('Z')
	case 'H':
		p.loose = p.loose || p.r.runs > 0
		p.r.whole = true
	case 'd', 'c', 'f', 'p', 'X': // the data of a COPY belongs to the request that began it
		p.r.whole = true
	default:
		return errors.New("a message of an unknown type")
	}
	return nil
}

// runs notes that the message just read brings the server to execute something.
func (p *postgres) runs(word string, calm bool) {
	if calm {
		return
	}
	if p.r.runs == 0 {
		p.r.runs, p.r.word = p.size, word
	}
	p.r.commands++
}

// ends notes that the message just read ends a request, and its transaction if that is its own.
func (p *postgres) ends(answer byte) {
	p.r.whole, p.loose = true, false
	p.next = append(p.next, answer)
}

// expect adds what the server will answer to the request that is now whole.
func (p *postgres) expect() {
	if len(p.next) > 0 && len(p.expected) == 0 {
		p.said = ""
	}
	for _, kind := range p.next {
		if p.skipping && kind != 'Z' {
			continue
		}
		p.skipping = false
		p.expected = append(p.expected, kind)
	}
	p.next = p.next[:0]
}

func (p *postgres) heard(b []byte) (int, bool, error) {
	n, end, err := p.out.read(b, true)
	if end {
		err = p.answered(p.out.kind, p.out.body)
	}
	return n, end, err
}

// answered reads one message of the server.
func (p *postgres) answered(kind byte, body []byte) error {
	p.invited = kind == 'G'
	switch kind {
	case 'Z':
		if len(body) > 0 {
			p.status = body[0]
		}
		p.upToSync(1)
	case 'E':
		p.said = "error " + sqlState(body)
		p.skipping = !p.upToSync(0)
	case '1':
		p.pop('P')
	case '2':
		p.pop('B')
	case '3':
		p.pop('C')
	case 'T', 'n':
		p.pop('D')
	case 'C', 'I', 's':
		p.pop('E')
		if kind == 'C' {
			p.said = tag(body)
		}
	case 'G':
		if len(p.expected) > 0 && p.expected[0] == 'E' {
			p.expected = p.expected[:1] // a Sync that came with it is passed over
		}
	case 'K':
		if len(body) >= 4 {
			p.process = binary.BigEndian.Uint32(body)
		}
	case 'W':
		return errors.New("a COPY both ways, as replication uses it")
	case 'A', 'D', 'H', 'N', 'R', 'S', 'V', 'c', 'd', 't', 'v':
	default:
		return errors.New("an answer of an unknown type")
	}
	return nil
}

func (p *postgres) pop(kind byte) {
	if len(p.expected) > 0 && p.expected[0] == kind {
		p.expected = slices.Delete(p.expected, 0, 1)
	}
}

// upToSync drops what is expected before the next end of a request, and so many letters more. It reports whether
// there is such an end.
func (p *postgres) upToSync(more int) bool {
	i := bytes.IndexByte(p.expected, 'Z')
	if i < 0 {
		p.expected = p.expected[:0]
		return false
	}
	p.expected = slices.Delete(p.expected, 0, i+more)
	return true
}

func remember(m map[string]statement, name string, s statement) {
	if _, known := m[name]; !known && len(m) >= maxNames {
		clear(m) // what is forgotten counts as a step without a name
	}
	m[name] = s
}

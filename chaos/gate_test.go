package chaos_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/effectonce/effectonce/chaos"
)

// deaf is a server that keeps what it is told, by connection, and says nothing.
type deaf struct {
	net.Listener
	mu   sync.Mutex
	told []string
}

func serveDeaf(t testing.TB) *deaf {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.told = append(d.told, "")
			d.mu.Unlock()
			go func() {
				defer c.Close()
				b := make([]byte, 1<<16)
				for {
					got, err := c.Read(b)
					d.mu.Lock()
					d.told[n] += string(b[:got])
					d.mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return d
}

func (d *deaf) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.told, "|")
}

func open(t testing.TB, o chaos.Options) *chaos.Proxy {
	t.Helper()
	p, err := chaos.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func write(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, messages ...pgproto3.FrontendMessage) string {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return string(b)
}

func TestEncryptionIsRefusedAndTheServerNeverHearsOfIt(t *testing.T) {
	d := serveDeaf(t)
	p := newProxy(t, d.Addr().String())
	c := dial(t, p)
	for _, ask := range []pgproto3.FrontendMessage{&pgproto3.GSSEncRequest{}, &pgproto3.SSLRequest{}} {
		write(t, c, encode(t, ask))
		no := make([]byte, 1)
		if _, err := io.ReadFull(c, no); err != nil || no[0] != 'N' {
			t.Fatalf("%T: %q, %v; want N", ask, no, err)
		}
	}
	start := encode(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}})
	write(t, c, start)
	eventually(t, "the server gets the start-up packet and nothing else", func() bool { return d.all() == start })
	if p.Trouble() != nil || p.Requests() != 0 || p.Protocol() != "postgres" {
		t.Errorf("trouble %v, %d requests, protocol %q", p.Trouble(), p.Requests(), p.Protocol())
	}
}

func TestAClientThatInsistsOnTLSIsToldOf(t *testing.T) {
	d := serveDeaf(t)
	p := newProxy(t, d.Addr().String())
	c := dial(t, p)
	write(t, c, encode(t, &pgproto3.SSLRequest{}))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.Close() // as a client with sslmode=require does
	eventually(t, "there is trouble", func() bool { return p.Trouble() != nil })
	if text := p.Trouble().Error(); !strings.HasPrefix(text, "chaos: proxy w0: ") || !strings.Contains(text, "sslmode=disable") {
		t.Errorf("the text: %s", text)
	}
	write(t, dial(t, p), encode(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30}))
	eventually(t, "a client that goes on without ends it", func() bool { return p.Trouble() == nil })

	if err := tls.Client(dial(t, p), &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Fatal("a TLS handshake with nobody")
	}
	if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "redis://") {
		t.Errorf("trouble: %v", err)
	}
	if strings.Contains(d.all(), "\x16") {
		t.Errorf("the server was told of TLS: %q", d.all())
	}
}

func TestACancelRequestIsPassedOnAndIsNoStep(t *testing.T) {
	d := serveDeaf(t)
	p := newProxy(t, d.Addr().String())
	cancel := encode(t, &pgproto3.CancelRequest{ProcessID: 7, SecretKey: []byte{1, 2, 3, 4}})
	write(t, dial(t, p), cancel)
	eventually(t, "the server gets it", func() bool { return d.all() == cancel })
	if p.Requests() != 0 || p.Unanswered() != 0 {
		t.Errorf("%d requests, %d unanswered", p.Requests(), p.Unanswered())
	}
}

// Whatever the pieces in which it comes, of a lost request the server gets nothing and of half a request a beginning.
func TestARequestInPiecesIsBrokenAsOne(t *testing.T) {
	const request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
	for _, size := range []int{1, 5, len(request)} {
		for kind, want := range map[chaos.Kind]string{
			chaos.RequestLost: "", chaos.HalfRequest: request[:len(request)/2], chaos.ConnectionCut: request,
		} {
			d := serveDeaf(t)
			p := newProxy(t, d.Addr().String())
			armed, err := p.Arm(chaos.Fault{Kind: kind, Request: 1})
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, p)
			for at := 0; at < len(request); at += size {
				write(t, c, request[at:min(at+size, len(request))])
			}
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%v in pieces of %d: the client got %q, %v", kind, size, got, err)
			}
			waitOver(t, armed)
			if d.all() != want {
				t.Errorf("%v in pieces of %d: the server got %q, want %q", kind, size, d.all(), want)
			}
			if s := armed.State(); s.Request != "set" || s.Protocol != chaos.Redis || s.Connection != 1 || s.Ended.IsZero() {
				t.Errorf("%v: %+v", kind, s)
			}
		}
	}
}

func TestWhatAClientSaidBeforeItLeftInTheMiddleOfARequestIsPassedOn(t *testing.T) {
	d := serveDeaf(t)
	p := newProxy(t, d.Addr().String())
	c := dial(t, p)
	const text = "*1\r\n$3\r\nGET\r\n*2\r\n$3\r\nSE"
	write(t, c, text)
	c.Close()
	eventually(t, "the server gets it all", func() bool { return d.all() == text })
	if p.Requests() != 1 {
		t.Errorf("%d requests, want the one that was whole", p.Requests())
	}
}

func TestAFaultThatMeansNothingIsRefused(t *testing.T) {
	p := newProxy(t, "127.0.0.1:1")
	for _, f := range []chaos.Fault{{}, {Kind: chaos.ReplyLost}, {Kind: 99, Request: 1}, {Kind: chaos.ReplyLost, Request: -1}} {
		if _, err := p.Arm(f); err == nil {
			t.Errorf("%+v was armed", f)
		}
	}
	if _, err := chaos.Open(chaos.Options{Protocol: "smtp"}); err == nil {
		t.Error("a protocol that nobody knows was accepted")
	}
	for _, kind := range chaos.Kinds() {
		armed, err := p.Arm(chaos.Fault{Kind: kind, Request: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Arm(chaos.Fault{Kind: kind, Request: 1}); !errors.Is(err, chaos.ErrArmed) {
			t.Errorf("%v, armed twice: %v", kind, err)
		}
		if s := armed.Disarm(); s.Outcome() != chaos.Untouched {
			t.Errorf("%v, never reached: %v", kind, s.Outcome())
		}
	}
}

func TestAnUpstreamThatIsDownIsTrouble(t *testing.T) {
	d := serveDeaf(t)
	addr := d.Addr().String()
	d.Close()
	p := newProxy(t, addr)
	if _, err := io.ReadAll(dial(t, p)); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	eventually(t, "there is trouble", func() bool { return p.Trouble() != nil && strings.Contains(p.Trouble().Error(), "reached") })
}

// Under quiet time all five do what they can, and the gate claims no more than it knows.
func TestEveryFaultWithoutAProtocol(t *testing.T) {
	for _, kind := range chaos.Kinds() {
		s := serveLines(t)
		p := newProxy(t, s.Addr().String())
		c := dial(t, p)
		mustAsk(t, c, "warm", "1 warm")
		armed, err := p.Arm(chaos.Fault{Kind: kind, Request: 2})
		if err != nil {
			t.Fatal(err)
		}
		mustAsk(t, c, "before", "2 before")
		got, err := ask(c, "broken")
		if err == nil || (got != "") != (kind == chaos.HalfReply) {
			t.Errorf("%v: the client got %q, %v", kind, got, err)
		}
		waitOver(t, armed)
		state := armed.State()
		want := chaos.Closed
		if kind == chaos.RequestLost {
			want = chaos.NotExecuted
		}
		if state.Outcome() != want || !state.Fired || state.Protocol != chaos.QuietTime {
			t.Errorf("%v: %v, %+v", kind, state.Outcome(), state)
		}
		if p.Protocol() != "quiet time" {
			t.Errorf("the protocol: %q", p.Protocol())
		}
	}
}

func TestWhatIsNoRequestOfItsProtocolIsPassedOnAndSaid(t *testing.T) {
	d := serveDeaf(t)
	p := newProxy(t, d.Addr().String())
	c := dial(t, p)
	const text = "*1\r\n$3\r\nGET\r\n*what?\r\n"
	write(t, c, text)
	eventually(t, "the server gets it all", func() bool { return d.all() == text })
	if got := p.Protocol(); got != "redis; redis, then quiet time (no number of arguments where one was due)" || p.Requests() != 1 {
		t.Errorf("the protocol: %q, %d requests", got, p.Requests())
	}
}

func TestAProtocolThatTheGateWasTold(t *testing.T) {
	d := serveDeaf(t)
	p := open(t, chaos.Options{Name: "w0", Upstream: d.Addr().String(), Protocol: chaos.Redis})
	c := dial(t, p)
	write(t, c, "PING\r\nset k v\r\n")
	eventually(t, "the server gets both", func() bool { return d.all() == "PING\r\nset k v\r\n" })
	if p.Requests() != 1 || p.Protocol() != "redis" || p.Unanswered() != 1 {
		t.Errorf("%d requests, protocol %q, %d unanswered", p.Requests(), p.Protocol(), p.Unanswered())
	}
}

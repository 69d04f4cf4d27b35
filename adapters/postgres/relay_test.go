package postgres_test

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// settleLook is long beside one look at pg_stat_activity.
const settleLook = 50 * time.Millisecond

// relay passes a Postgres connection on and counts the client's messages by their type.
type relay struct {
	listener net.Listener
	upstream string

	mu      sync.Mutex
	counts  map[byte]int
	conns   []net.Conn
	swallow bool
}

func newRelay(t *testing.T, dsn string) *relay {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{listener: l, upstream: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), counts: map[byte]int{}}
	var running sync.WaitGroup
	running.Go(func() { r.accept(&running) })
	t.Cleanup(func() {
		r.cut()
		running.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) count(kind byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[kind]
}

// trips counts what the server answers with ReadyForQuery: Sync and the simple query.
func (r *relay) trips() int { return r.count('S') + r.count('Q') }

// swallowReplies lets requests through and cuts the connection instead of passing the next reply on.
func (r *relay) swallowReplies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallow = true
}

// cut ends every connection, and lets no new one through: pgx dials a second one to cancel what it gave up.
func (r *relay) cut() {
	r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

func (r *relay) accept(running *sync.WaitGroup) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.upstream)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client)
		r.mu.Unlock()
		running.Go(func() { r.requests(client, server) })
		running.Go(func() { r.replies(client, server) })
	}
}

func (r *relay) requests(client, server net.Conn) {
	defer server.Close()
	for startup := true; ; startup = false {
		head := make([]byte, 5)
		if startup {
			head = head[:4]
		}
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		if !startup {
			r.mu.Lock()
			r.counts[head[0]]++
			r.mu.Unlock()
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

func (r *relay) replies(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		swallow := r.swallow
		r.mu.Unlock()
		if swallow {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

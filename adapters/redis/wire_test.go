package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// wire is a proxy that counts script calls and can lose their replies: the request reaches the server, the answer is
// read, and the connection is cut.
type wire struct {
	net.Listener
	upstream string
	scripts  atomic.Int32
	lose     atomic.Bool
	wg       sync.WaitGroup
}

func newWire(t *testing.T, upstream string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, upstream: upstream}
	w.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.wg.Wait()
	})
	return w
}

func (w *wire) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool // at the next answer
	w.wg.Go(func() {
		defer client.Close()
		pump(client, server, func([]byte) bool { return !cut.Load() })
	})
	pump(server, client, func(request []byte) bool {
		if bytes.Contains(request, []byte("\r\nevalsha\r\n")) {
			w.scripts.Add(1)
			cut.Store(w.lose.Load())
		}
		return true
	})
}

// pump copies until an end fails or pass says no.
func pump(to, from net.Conn, pass func([]byte) bool) {
	var buf [64 << 10]byte
	for {
		n, err := from.Read(buf[:])
		if err != nil || !pass(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestALostReplyIsUnknownAndTheCallIsNotRepeated(t *testing.T) {
	lost := func(t *testing.T, s *Store, w *wire) {
		t.Helper()
		ctx := t.Context()
		w.lose.Store(true)
		before := w.scripts.Load()
		_, claimed, err := s.BeginAs(ctx, "c", "m", "nonce", epoch, lease)
		if claimed || err == nil || model.OutcomeOf(err) != model.Unknown {
			t.Fatalf("BeginAs answers %v, %v, want an error of unknown outcome", claimed, err)
		}
		if n := w.scripts.Load() - before; n != 1 {
			t.Fatalf("the call went out %d times, want once", n)
		}
		w.lose.Store(false)
		if r, claimed, err := s.BeginAs(ctx, "c", "m", "nonce", epoch, lease); !claimed || err != nil || r.Attempts != 1 {
			t.Errorf("asked again under its nonce: %+v, %v, %v, want the claim of the first call", r, claimed, err)
		}
	}
	eachServer(t, func(t *testing.T, url string) {
		settings, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		w := newWire(t, settings.Addr)
		lost(t, open(t, url, Options{Namespace: freshNamespace(t, url), Addr: w.Addr().String()}), w)
	})
	t.Run("cluster client", func(t *testing.T) {
		w := newWire(t, miniredis.RunT(t).Addr())
		client := goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: []string{w.Addr().String()}, MaxRetries: -1,
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, w.Addr().String())
			},
		})
		defer client.Close()
		s, err := New(client, Options{Namespace: "n"})
		if err == nil {
			err = s.Warm(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		lost(t, s, w)
	})
}

func TestAServerThatIsAwayProvesNoEffectAndIsFoundAtOnceWhenItIsBack(t *testing.T) {
	server := miniredis.RunT(t)
	s := open(t, "redis://"+server.Addr(), Options{Namespace: "n", PoolSize: 2})
	server.Close()
	for i := range 10 { // more than the pool has room for
		err := s.Complete(t.Context(), "c", "m", epoch)
		if err == nil || i > 0 && model.OutcomeOf(err) != model.NotApplied {
			t.Fatalf("call %d: %v (%v), want the proof that nothing was sent", i, err, model.OutcomeOf(err))
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), "c", "m", epoch); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the first call after the restart: %v, want ErrNotFound", err)
	}
}

func TestAServerThatRefusesToWriteProvesNoEffect(t *testing.T) {
	for answer, want := range map[string]model.Outcome{
		"OOM command not allowed when used memory > 'maxmemory'.": model.NotApplied,
		"LOADING Redis is loading the dataset in memory":          model.NotApplied,
		"READONLY You can't write against a read only replica.":   model.NotApplied,
		"ERR something else": model.Unknown,
		"OOMPH":              model.Unknown,
	} {
		server := miniredis.RunT(t)
		s := open(t, "redis://"+server.Addr(), Options{Namespace: "n"})
		server.SetError(answer)
		_, _, err := s.Begin(t.Context(), "c", "m", epoch, lease)
		if err == nil || model.OutcomeOf(err) != want {
			t.Errorf("%s: %v (%v), want %v", answer, err, model.OutcomeOf(err), want)
		}
	}
}

func TestADeadlineEndsACallOnASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, answers never
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	quiet, err := New(goredis.NewClient(&goredis.Options{
		Addr: silent.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true,
	}), Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, _, err = quiet.Begin(ctx, "c", "m", epoch, lease)
	if err == nil || model.OutcomeOf(err) != model.Unknown || time.Since(began) > 3*time.Second {
		t.Errorf("Begin answers %v (%v) after %v", err, model.OutcomeOf(err), time.Since(began))
	}
}

// The keys of one script must meet on one node: only a cluster of several says otherwise.
func TestACluster(t *testing.T) {
	addrs := os.Getenv("TEST_REDIS_CLUSTER")
	if addrs == "" {
		t.Skip("TEST_REDIS_CLUSTER (host:port,…) is not set: no cluster to test against")
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: strings.Split(addrs, ","), MaxRetries: -1})
	defer client.Close()
	s, err := New(client, Options{Namespace: "cluster-" + time.Now().Format("150405.000000")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	const records = 300
	fill(t, s, records)
	r, claimed, err := s.Begin(t.Context(), "c", "effect", epoch, lease)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if err := s.CommitEffect(t.Context(), "c", "effect", r, epoch, model.Effect{ID: "e"}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), epoch.Add(time.Second)); n != records+1 || err != nil {
		t.Errorf("Prune answers %d, %v, want %d", n, err, records+1)
	}
}

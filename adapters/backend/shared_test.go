package backend

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestASharedServerIsStartedOnceByWhoeverAsksFirstAndEndedByClose(t *testing.T) {
	var opened, ended atomic.Int64
	shared := Share(func(context.Context, Options) (*Server, error) {
		opened.Add(1)
		return &Server{close: func() error { ended.Add(1); return nil }}, nil
	})
	if opened.Load() != 0 {
		t.Error("it was started before anybody asked")
	}
	var wg sync.WaitGroup
	servers := make([]*Server, 8)
	for i := range servers {
		wg.Go(func() { servers[i], _ = shared.Get() })
	}
	wg.Wait()
	for _, s := range servers {
		if s == nil || s != servers[0] {
			t.Errorf("servers %p", servers)
		}
	}
	if err := errors.Join(shared.Close(), shared.Close()); err != nil {
		t.Error(err)
	}
	if opened.Load() != 1 || ended.Load() != 1 {
		t.Errorf("started %d times, ended %d times", opened.Load(), ended.Load())
	}
	if s, err := shared.Get(); s != nil || !errors.Is(err, errSharedClosed) {
		t.Errorf("after Close: %p, %v", s, err)
	}
}

func TestASharedServerThatNobodyAskedForIsNeverStarted(t *testing.T) {
	shared := Share(func(context.Context, Options) (*Server, error) {
		t.Error("started")
		return nil, nil
	})
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
	if _, err := shared.Get(); !errors.Is(err, errSharedClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// bench is a test that notes how it ended, as testing.T does: by the end of its goroutine.
type bench struct{ skipped, failed, logged []any }

func (b *bench) Helper()           {}
func (b *bench) Log(args ...any)   { b.logged = args }
func (b *bench) Skip(args ...any)  { b.skipped = args; runtime.Goexit() }
func (b *bench) Fatal(args ...any) { b.failed = args; runtime.Goexit() }

func needed(s *Shared) (b *bench, server *Server) {
	b = &bench{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server = s.Need(b)
	}()
	<-done
	return b, server
}

func TestATestIsSkippedForAnAbsentServerAndFailsForARequiredOne(t *testing.T) {
	broken := errors.New("backend: it does not answer")
	for _, c := range []struct {
		err             error
		skipped, failed bool
	}{
		{err: nil},
		{err: &Absent{Server: NameRedis}, skipped: true},
		{err: &Absent{Server: NameRedis, Required: true}, failed: true},
		{err: broken, failed: true},
	} {
		asked := 0
		shared := Share(func(context.Context, Options) (*Server, error) {
			if asked++; c.err != nil {
				return nil, c.err
			}
			return &Server{}, nil
		})
		for range 2 { // an error is remembered
			b, server := needed(shared)
			if skipped, failed := b.skipped != nil, b.failed != nil; skipped != c.skipped || failed != c.failed {
				t.Errorf("%v: skipped %v, failed %v", c.err, b.skipped, b.failed)
			}
			if given := c.err == nil; (server != nil) != given || (b.logged != nil) != given {
				t.Errorf("%v: got %p, logged %v", c.err, server, b.logged)
			}
		}
		if asked != 1 {
			t.Errorf("%v: started %d times", c.err, asked)
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestASharedServerObeysTheEnvironment(t *testing.T) {
	t.Setenv(EnvBackend, "dsn")
	t.Setenv(EnvRedisURL, "")
	if _, err := Share(RealRedis).Get(); !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), EnvRedisURL) {
		t.Errorf("error %v", err)
	}
	t.Setenv(EnvBackend, "dokcer")
	if _, err := Share(RealRedis).Get(); err == nil || errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), "dokcer") {
		t.Errorf("error %v", err)
	}
}

func TestARealRedisIsNeverMiniredis(t *testing.T) {
	s, err := RealRedis(t.Context(), Options{folders: []string{t.TempDir()}})
	if s != nil || !errors.Is(err, ErrAbsent) {
		t.Errorf("got %v, %v", s, err)
	}
}

package scenarios

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

// lane runs plans one after the other, in namespaces of its own. What it opens it closes; it is used by one
// goroutine.
type lane struct {
	h     *Harness
	names *namespaces

	namespace string // empty: none is open
	used      int    // plans that this namespace has seen
	seen      []*Plan
	dirty     bool // it holds something that the next plan must not meet
	warmed    int  // warm-ups so far: each has messages of its own
	handles   []*handle
	proxies   []*chaos.Proxy // by worker, kept between namespaces
}

// handle is one opened value of one worker.
type handle struct {
	value any
	capabilities
	crash context.CancelFunc
	// clock is the worker's time in ns since 1970, or, where real time passes, how far it is off that. Background work of
	// the store may ask at any moment.
	clock atomic.Int64
}

// namespaceAtMost bounds the plans that one namespace sees: its ledger and its stuck claims only grow.
const namespaceAtMost = 100

// callAtMost bounds one call. It is far above what a loaded machine needs, and a call that it ends is unknown.
const callAtMost = 20 * time.Second

// ready makes sure of a namespace that the next plan can use.
func (l *lane) ready(ctx context.Context) error {
	if l.namespace != "" && !l.dirty && l.used < namespaceAtMost {
		l.used++
		return l.forget(ctx)
	}
	if err := l.leave(ctx); err != nil {
		return err
	}
	name := l.names.next()
	if l.h.Prepare != nil {
		if err := bounded(ctx, func(ctx context.Context) error { return l.h.Prepare(ctx, name) }); err != nil {
			return fmt.Errorf("scenarios: %s: prepare namespace: %w", l.h.Name, err)
		}
	}
	l.namespace, l.used, l.dirty, l.seen = name, 1, false, nil
	return nil
}

// forget prunes what the last plan left DONE, so that the next one can count what Prune removes. A namespace in
// which that fails is not used again.
func (l *lane) forget(ctx context.Context) error {
	for _, h := range l.handles {
		if h == nil || h.pruner == nil {
			continue
		}
		if !l.pruned(ctx, h.pruner) {
			l.dirty = true
			return l.ready(ctx)
		}
		return nil
	}
	return nil
}

// pruned prunes everything. A store may remove few at a time.
func (l *lane) pruned(ctx context.Context, store pruner) bool {
	t := l.newTimeline()
	for range forgetAtMost {
		n := 0
		err := bounded(ctx, func(ctx context.Context) (err error) {
			n, err = store.Prune(ctx, t.epoch.Add(farFuture))
			return err
		})
		if err != nil || n == 0 || l.h.Contract.SharedNamespace {
			return err == nil
		}
	}
	return false
}

const (
	// farFuture is later than any instant of a plan, and not so far that 32 bits of seconds run out.
	farFuture = 30 * 365 * 24 * time.Hour
	// forgetAtMost is more than the messages of a plan.
	forgetAtMost = 200
)

// leave closes the handles and drops the namespace.
func (l *lane) leave(ctx context.Context) error {
	for w := range l.handles {
		l.close(w)
	}
	l.handles = nil
	if l.namespace == "" {
		return nil
	}
	name := l.namespace
	l.namespace = ""
	if l.h.Drop == nil {
		return nil
	}
	if err := bounded(ctx, func(ctx context.Context) error { return l.h.Drop(ctx, name) }); err != nil {
		return fmt.Errorf("scenarios: %s: drop namespace: %w", l.h.Name, err)
	}
	return nil
}

// end leaves the namespace and closes the proxies.
func (l *lane) end(ctx context.Context) error {
	err := l.leave(ctx)
	for _, p := range l.proxies {
		if p != nil {
			if closing := p.Close(); err == nil {
				err = closing
			}
		}
	}
	l.proxies = nil
	return err
}

// open gives a worker its handle, if it has none.
func (l *lane) open(ctx context.Context, worker int, now time.Time, skew time.Duration) (*handle, error) {
	for len(l.handles) < worker {
		l.handles = append(l.handles, nil)
	}
	if h := l.handles[worker-1]; h != nil {
		l.set(h, now, skew)
		return h, nil
	}
	addr, err := l.addr(worker)
	if err != nil {
		return nil, err
	}
	alive, crash := context.WithCancel(context.Background())
	h := &handle{crash: crash}
	l.set(h, now, skew)
	env := Env{
		Alive: alive, Namespace: l.namespace, Worker: worker, Addr: addr,
		Now: func() time.Time { return time.Unix(0, h.clock.Load()).UTC() },
	}
	if l.h.waits() {
		env.Now = func() time.Time { return time.Now().UTC().Add(time.Duration(h.clock.Load())) }
	}
	if err := bounded(ctx, func(ctx context.Context) error { return l.h.enter(ctx, env, h) }); err != nil {
		crash()
		if addr != "" && l.proxies[worker-1].Trouble() != nil {
			err = fmt.Errorf("%w: %w", l.proxies[worker-1].Trouble(), err)
		}
		return nil, fmt.Errorf("scenarios: %s: open: %w", l.h.Name, err)
	}
	_ = bounded(ctx, func(ctx context.Context) error { l.warm(ctx, worker, h); return nil })
	l.handles[worker-1] = h
	return h, nil
}

// set sets the clock that a handle was given.
func (l *lane) set(h *handle, now time.Time, skew time.Duration) {
	if l.h.waits() {
		h.clock.Store(int64(skew))
		return
	}
	h.clock.Store(now.UnixNano())
}

// addr is where a worker dials: its own proxy before the upstream.
func (l *lane) addr(worker int) (string, error) {
	if l.h.Upstream == "" {
		return "", nil
	}
	for len(l.proxies) < worker {
		l.proxies = append(l.proxies, nil)
	}
	if l.proxies[worker-1] == nil {
		p, err := chaos.NewProxy(fmt.Sprintf("w%d", worker), l.h.Upstream)
		if err != nil {
			return "", fmt.Errorf("scenarios: %s: proxy of w%d: %w", l.h.Name, worker, err)
		}
		l.proxies[worker-1] = p
	}
	return l.proxies[worker-1].Addr(), nil
}

// close ends a handle in order.
func (l *lane) close(w int) {
	h := l.handles[w]
	if h == nil {
		return
	}
	switch c := h.value.(type) {
	case interface{ Close() error }:
		_ = c.Close() // what a store says on its way out decides nothing
	case interface{ Close() }:
		c.Close()
	}
	h.crash()
	l.handles[w] = nil
}

// crash takes a worker away as a crash does: its handle is abandoned, never closed, and its connections are cut.
func (l *lane) crash(w int) error {
	h := l.handles[w]
	if h == nil {
		return nil
	}
	h.crash()
	l.handles[w] = nil
	if w < len(l.proxies) && l.proxies[w] != nil {
		p := l.proxies[w]
		l.proxies[w] = nil
		p.Cut()
		return p.Close()
	}
	return nil
}

// bounded runs a piece of set-up under the bound of one call. One that does not heed its context is left behind.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callAtMost)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(graceAtEnd):
		return fmt.Errorf("did not return, although its context ended: %w", ctx.Err())
	}
}

// graceAtEnd is what a call may take to notice that its context has ended.
const graceAtEnd = time.Second

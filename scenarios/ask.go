package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// reachAtMost bounds the wait for a server that may not be there.
const reachAtMost = 3 * time.Second

// reach makes sure of the server before anything is opened.
func (g *campaign) reach(ctx context.Context) error {
	if g.h.Upstream == "" {
		return nil
	}
	dialer := net.Dialer{Timeout: reachAtMost}
	conn, err := dialer.DialContext(ctx, "tcp", g.h.Upstream)
	if err != nil {
		return fmt.Errorf("scenarios: %s: the server cannot be reached: %w", g.h.Name, err)
	}
	return conn.Close()
}

// ask opens the store once to find out what it can do, and refuses a harness that cannot be judged.
func (g *campaign) ask(ctx context.Context) (err error) {
	l := &lane{h: g.h, names: g.names}
	defer func() { err = errors.Join(err, l.end(context.WithoutCancel(ctx))) }()
	if err := l.ready(ctx); err != nil {
		return err
	}
	first, err := l.open(ctx, 1, 0)
	if err != nil {
		return err
	}
	g.found = first.capabilities
	if g.found.committer != nil && g.h.Effects == nil {
		return fmt.Errorf("scenarios: %s: the store commits effects, and Effects is not set: nothing could count them", g.h.Name)
	}
	if err := g.capable(); err != nil {
		return err
	}
	if acceptedKeys(g.h.Contract) == nil {
		return fmt.Errorf("scenarios: %s: Contract.AcceptsKey refuses every key that plans are drawn with, such as \"orders\" and \"17-m1\", or \"171\"", g.h.Name)
	}
	g.planner = newPlanner(newSurface(g.h, g.found))
	return g.separate(ctx, l, first)
}

// capable refuses a store that lacks what is required of it.
func (g *campaign) capable() error {
	names := map[string]bool{}
	for kind, name := range optional() {
		names[name] = slices.Contains(g.found.kinds(), kind)
	}
	for _, want := range g.c.require {
		has, known := names[want]
		if !known {
			return fmt.Errorf("scenarios: Require: %q is no capability that this version judges", want)
		}
		if !has {
			return fmt.Errorf("scenarios: %s: the store has no %s, which is required; a wrapper hides optional methods", g.h.Name, want)
		}
	}
	return nil
}

// separate claims one message in two namespaces. A harness whose namespaces are one would have its plans disturb
// each other, and a right store accused.
func (g *campaign) separate(ctx context.Context, l *lane, first *handle) error {
	if g.h.Contract.SharedNamespace {
		return nil
	}
	other := &lane{h: g.h, names: g.names}
	defer other.end(context.WithoutCancel(ctx))
	if err := other.ready(ctx); err != nil {
		return err
	}
	second, err := other.open(ctx, 1, 0)
	if err != nil {
		return err
	}
	const consumer, id, lease = "effectonce", "namespaces are separate", time.Hour
	_, claimed, err := first.store.Begin(ctx, consumer, id, epoch, lease)
	if err != nil || !claimed {
		return nil // that is for the plans to find, and to show
	}
	r, again, err := second.store.Begin(ctx, consumer, id, epoch, lease)
	if err == nil && !again && r.State == model.Processing {
		return fmt.Errorf("scenarios: %s: a record of namespace %q is visible in %q: let Open use Env.Namespace, or set Contract.SharedNamespace",
			g.h.Name, l.namespace, other.namespace)
	}
	return nil
}

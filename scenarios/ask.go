package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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
	first, err := l.open(ctx, 1, epoch, 0)
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
	if acceptedKeys(g.h.Contract, ordinaryKeys) == nil {
		return fmt.Errorf("scenarios: %s: Contract.AcceptsKey refuses every key that plans are drawn with, such as \"orders\" and \"17-m1\", or \"171\"", g.h.Name)
	}
	g.planner = newPlanner(newSurface(g.h, g.found))
	return g.separate(ctx, l, first)
}

// capable refuses a store that lacks what is required of it.
func (g *campaign) capable() error {
	found, missing := g.h.door().names(&g.found)
	for _, want := range g.c.require {
		switch {
		case slices.Contains(found, want):
		case slices.Contains(missing, want):
			return fmt.Errorf("scenarios: %s: the store has no %s, which is required; a wrapper hides optional methods", g.h.Name, want)
		default:
			return fmt.Errorf("scenarios: Require: %q is no capability of what this harness opens; there are %s",
				want, strings.Join(slices.Sorted(slices.Values(slices.Concat(found, missing))), ", "))
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
	second, err := other.open(ctx, 1, epoch, 0)
	if err != nil {
		return err
	}
	// What else goes wrong here is for the plans to find, and to show.
	if mine, met := g.meets(ctx, first); !mine || met {
		return nil
	}
	if mine, met := g.meets(ctx, second); !mine && met {
		return fmt.Errorf("scenarios: %s: a record of namespace %q is visible in %q: let Open use Env.Namespace, or set Contract.SharedNamespace",
			g.h.Name, l.namespace, other.namespace)
	}
	return nil
}

// meets has a handle take one message, and says whether it was the first, and whether it met another's record of it.
func (g *campaign) meets(ctx context.Context, h *handle) (first, met bool) {
	const consumer, id, lease = "effectonce", "namespaces are separate", time.Hour
	effect := model.Effect{ID: "effectonce " + id, Account: consumer}
	_ = bounded(ctx, func(ctx context.Context) error {
		switch {
		case h.inbox != nil:
			applied, err := h.inbox.ApplyOnce(ctx, consumer, id, epoch, effect)
			first, met = err == nil && applied, err == nil && !applied
		case h.consumer != nil:
			told, err := h.consumer.Deliver(ctx, model.Message{Consumer: consumer, ID: id, Delivery: 1, Effect: effect})
			first, met = err == nil && told == model.ResultApplied, err == nil && told == model.ResultDuplicate
		default:
			r, claimed, err := h.store.Begin(ctx, consumer, id, epoch, lease)
			first, met = err == nil && claimed, err == nil && !claimed && r.State == model.Processing
		}
		return nil
	})
	return first, met
}

// Package scenarios draws plans, runs them against a store that a team plugs in, and reports. It is the only
// package that a user's test needs:
//
//	func TestMyStore(t *testing.T) { scenarios.Test(t, harness) }
//
// Importing it registers rapid's own flags (-rapid.*) in the test binary, since plans are drawn with rapid; none
// of them has an influence here. The package registers no flag of its own: settings come as options or from the
// environment, see [Settings].
package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Env is what one worker's handle gets to live in.
type Env struct {
	// Alive ends when this worker crashes. Background work of the handle (heartbeats) must end with it.
	Alive context.Context
	// Namespace keeps cases apart: a schema, a key prefix, a map. Records of one namespace must not be visible in
	// another one, unless the contract says SharedNamespace.
	Namespace string
	// Worker counts from 1.
	Worker int
	// Addr is where to dial: the worker's own proxy. Empty: the harness has no upstream.
	Addr string
	// Now is the worker's clock, skewed by the plan.
	Now func() time.Time
	_   struct{}
}

// Consumer is a whole consumer as a black box: what it is delivered and what it makes of it. Its business effect is to
// write m.Effect as it stands, which Harness.Effects then finds; every delivery carries an effect with an id of its own,
// so that a second one is told from the first. Its clock is Env.Now.
//
// It is judged by what it tells and by the effects that are found: at most one within the window, one if it tells
// "applied" or "duplicate", and no "in flight" without another delivery at work or one that was cut short, not even
// then at the broker's latest redelivery (Contract.Redelivery after it). An error is right where "in flight" is, and
// where a fault explains it. See [BatchConsumer]; one with a Prune method is cleaned by the kit.
type Consumer interface {
	Deliver(ctx context.Context, m model.Message) (model.Result, error)
}

// Server breaks the server under a store; nil: not possible, and the report says so.
type Server struct {
	Kill, Restart, Pause, Resume func(ctx context.Context) error
}

// Harness says how to make, reach and break one kind of store. Exactly one of Open, OpenInbox, OpenConsumer is set.
//
// Open is called once per worker: own handle, own connections, own proxy. Several namespaces are in use at once, so
// that Open, Prepare, Drop and Effects are called from several goroutines. A handle with Close() or Close() error is
// closed at its end, and never at a crash.
type Harness struct {
	Name     string
	Contract model.Contract

	Open         func(ctx context.Context, env Env) (model.Store, error)
	OpenInbox    func(ctx context.Context, env Env) (model.Inbox, error)
	OpenConsumer func(ctx context.Context, env Env) (Consumer, error)

	// Prepare and Drop run once per namespace: before any Open, after the last handle. nil: nothing to do.
	Prepare, Drop func(ctx context.Context, namespace string) error

	// Upstream is host:port of the real server, where there is one. A proxy stands before it for each worker.
	Upstream string
	Server   Server

	// Control is a small round trip over addr, for the time bounds. nil: no time bound is judged, and the report
	// says so.
	Control func(ctx context.Context, addr string) error
	// Blocked tells which backends a Postgres-like backend waits for. nil: a silent worker is "not enumerable".
	Blocked func(ctx context.Context, backendPID uint32) (by []uint32, err error)

	// Effects counts effects outside the store, on a connection of its own. Needed for EffectCommitter, Inbox,
	// Consumer.
	Effects func(ctx context.Context, namespace string) ([]model.Applied, error)
	// Settled returns when nothing sent before the call can still take effect; nil: such outcomes stay open.
	Settled func(ctx context.Context, namespace string) error
	// Outcome classifies an error; nil: model.OutcomeOf.
	Outcome func(error) model.Outcome
	// Advance moves the server's clock, for a contract with ServerClock; nil: real time passes, in many namespaces side
	// by side. A clock that can be moved is one for all namespaces, so that plans then run one at a time. It agrees with
	// this machine's when a test begins, and runs on beside it.
	Advance func(ctx context.Context, d time.Duration) error
	_       struct{}
}

// validate says what is wrong with a harness, naming the field, before anything is opened.
func (h *Harness) validate() error {
	doors := 0
	for _, open := range []bool{h.Open != nil, h.OpenInbox != nil, h.OpenConsumer != nil} {
		if open {
			doors++
		}
	}
	switch {
	case h.Name == "":
		return errors.New("scenarios: harness: Name is empty")
	case doors == 0:
		return fmt.Errorf("scenarios: harness %q: none of Open, OpenInbox, OpenConsumer is set; exactly one must be", h.Name)
	case doors > 1:
		return fmt.Errorf("scenarios: harness %q: %d of Open, OpenInbox, OpenConsumer are set; exactly one must be", h.Name, doors)
	case h.Open == nil && h.Effects == nil:
		return fmt.Errorf("scenarios: harness %q: an inbox and a consumer are judged by their effects, and Effects is not set: nothing could count them", h.Name)
	}
	if err := h.Contract.Validate(); err != nil {
		return fmt.Errorf("scenarios: harness %q: %w", h.Name, err)
	}
	if h.Upstream != "" {
		if _, _, err := net.SplitHostPort(h.Upstream); err != nil {
			return fmt.Errorf("scenarios: harness %q: Upstream %q is not host:port", h.Name, h.Upstream)
		}
	}
	return nil
}

// waits reports whether real time has to pass for the store's clock to move.
func (h *Harness) waits() bool { return h.Contract.Clock == model.ServerClock && h.Advance == nil }

// enter opens one worker's value through the harness's door and finds out what it can do.
func (h *Harness) enter(ctx context.Context, env Env, to *handle) (err error) {
	switch {
	case h.OpenInbox != nil:
		var inbox model.Inbox
		if inbox, err = h.OpenInbox(ctx, env); inbox != nil {
			to.value, to.capabilities = inbox, findInbox(inbox)
		}
	case h.OpenConsumer != nil:
		var consumer Consumer
		if consumer, err = h.OpenConsumer(ctx, env); consumer != nil {
			to.value, to.capabilities = consumer, findConsumer(consumer)
		}
	default:
		var store model.Store
		if store, err = h.Open(ctx, env); store != nil {
			to.value, to.capabilities = store, findStore(store)
		}
	}
	if err == nil && to.value == nil {
		return errors.New("neither a value nor an error was returned")
	}
	return err
}

func (h *Harness) outcome(err error) model.Outcome {
	if h.Outcome != nil && err != nil {
		return h.Outcome(err)
	}
	return model.OutcomeOf(err)
}

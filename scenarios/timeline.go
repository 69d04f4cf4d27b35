package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// epoch is where the plan's time begins under the caller's clock. It is far from the machine's own time, so that a
// store that asks the machine's clock instead of its caller is found out.
var epoch = time.Date(2031, time.March, 30, 0, 0, 0, 0, time.UTC)

// timeline is the time of one run of a plan. Under the caller's clock it is the plan's alone. Under the server's clock
// it is the server's: a clock step advances it, or waits until as much real time has passed, and when exactly an
// operation met the server's clock is known to within its call and its return.
type timeline struct {
	epoch  time.Time
	began  time.Time // its monotonic reading counts
	server bool
	waits  bool // the server's clock has no other way to move than real time
}

func (l *lane) newTimeline() timeline {
	t := timeline{epoch: epoch, began: time.Now(), server: l.h.Contract.Clock == model.ServerClock}
	if t.server {
		t.waits = l.h.Advance == nil
		t.epoch = t.began.Round(0).UTC().Add(time.Duration(l.names.advanced.Load()))
	}
	return t
}

// now is how far the time has come where the plan stands at planned.
func (t *timeline) now(planned time.Duration) time.Duration {
	if t.waits {
		return time.Since(t.began)
	}
	return planned
}

// called is the server's time at a call, or a little before it.
func (t *timeline) called(planned time.Duration) model.Instant {
	if !t.server {
		return model.NoInstant
	}
	return model.InstantOf(t.epoch.Add(t.now(planned)))
}

// returned is the server's time at a return, or a little after it: a server that can be advanced may have a clock that
// runs on by itself, too.
func (t *timeline) returned(planned time.Duration) model.Instant {
	if !t.server {
		return model.NoInstant
	}
	if !t.waits {
		planned += time.Since(t.began)
	}
	return model.InstantOf(t.epoch.Add(t.now(planned)))
}

// moved reports whether the machine's clock was set while the plan ran: who then compares it with the real time that
// passed would accuse a right store.
func (t *timeline) moved(by time.Duration) bool {
	now := time.Now()
	apart := now.Round(0).Sub(t.began.Round(0)) - now.Sub(t.began)
	return t.server && apart.Abs() > by
}

// pass lets a clock step happen to the server.
func (x *execution) pass(ctx context.Context, by time.Duration) error {
	h := x.lane.h
	switch {
	case !x.server && h.Advance == nil, by == 0:
		return nil
	case by < 0 && x.server:
		return fmt.Errorf("scenarios: %s: the plan sets the server's clock back by %v: nothing can", h.Name, -by)
	case by < 0:
		return nil
	case h.Advance != nil:
		x.lane.names.advanced.Add(int64(by))
		return bounded(ctx, func(ctx context.Context) error { return h.Advance(ctx, by) })
	}
	// This wait is the plan's own time passing, not a guess at when something else is ready.
	wait := time.NewTimer(x.time - time.Since(x.began))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

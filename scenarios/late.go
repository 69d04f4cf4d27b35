package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// A call is late if so much time went by, and so many control operations finished meanwhile. On a machine that
// stands still both stand still: then nothing is late.
const (
	lateAfter    = 6 * time.Second
	lateControls = 100
	watchEvery   = 50 * time.Millisecond
)

// underway is the call that a run is in, for the watch that runs beside it.
type underway struct {
	mu      sync.Mutex
	op      model.Operation // as it was when the call began; ID 0: none
	since   time.Time
	faulty  bool // a fault is at work: nothing is late meanwhile
	givenUp bool
}

func (u *underway) enter(o *model.Operation, faulty bool) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.op, u.since, u.faulty = *o, time.Now(), faulty
	return u.since
}

// leave ends a call. It is false if the run was given up meanwhile: the lane is no longer its own.
func (u *underway) leave() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.op.ID = 0
	return !u.givenUp
}

// watched runs a plan and watches its calls. A call that does not return would hold the run for ever: its lane is
// given up then, with everything in it, and the history ends with the call pending.
func (x *execution) watched(ctx context.Context) (*ran, error) {
	type end struct {
		ran *ran
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := x.run(ctx)
		ended <- end{r, err}
	}()
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	last, ticks := 0, 0
	for {
		select {
		case e := <-ended:
			return e.ran, e.err
		case <-watch.C:
		}
		op, since := x.underway.now()
		if op.ID == 0 || op.ID != last {
			last, ticks = op.ID, 0
			continue
		}
		if ticks++; ticks < lateControls || time.Since(since) < lateAfter {
			continue
		}
		r, err := x.giveUp(ctx, op)
		if !errors.Is(err, errReturnedAtLast) {
			return r, err
		}
	}
}

var (
	errReturnedAtLast = errors.New("scenarios: the call returned after all")
	errGivenUp        = errors.New("scenarios: the run was given up")
)

func (u *underway) now() (model.Operation, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.faulty {
		return model.Operation{}, u.since
	}
	return u.op, u.since
}

// giveUp ends a run whose call is late, after asking the server whether it is the slow one.
func (x *execution) giveUp(ctx context.Context, op model.Operation) (*ran, error) {
	h := x.lane.h
	x.underway.mu.Lock()
	if x.underway.op.ID != op.ID {
		x.underway.mu.Unlock()
		return nil, errReturnedAtLast
	}
	x.underway.givenUp = true
	x.underway.mu.Unlock()
	stuck := fmt.Sprintf("%s of w%d did not return within %v", op.Kind, op.Worker, lateAfter)
	x.lane.abandon()
	if h.Upstream != "" {
		if h.Control == nil {
			return nil, fmt.Errorf("scenarios: %s: %s, and no Control is set to tell a slow server from a stuck store", h.Name, stuck)
		}
		for range lateControls {
			if err := bounded(ctx, func(ctx context.Context) error { return h.Control(ctx, h.Upstream) }); err != nil {
				return nil, fmt.Errorf("scenarios: %s: %s, and neither did the server answer a control operation: %w", h.Name, stuck, err)
			}
		}
	}
	op.Late = true
	history := *x.history
	history.Operations = append(history.Operations[:len(history.Operations):len(history.Operations)], op)
	return &ran{history: &history, steps: append(x.steps[:len(x.steps):len(x.steps)], x.at)}, nil
}

// abandon leaves a lane's handles and proxies to the call that holds them.
func (l *lane) abandon() {
	l.handles, l.proxies, l.namespace, l.dirty = nil, nil, "", true
}

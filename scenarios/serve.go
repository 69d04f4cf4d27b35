package scenarios

import (
	"context"

	"github.com/effectonce/effectonce/model"
)

// serve is a worker's own loop in the real tier: a line of the plan comes in, a line of the history goes out. The
// moments in it are the worker's own and mean nothing; the executor puts its own in their place. An empty line says
// that the step could not be taken.
func (w *worker) serve(ctx context.Context, h *handle, harness *Harness, in <-chan string, out chan<- string, epoch model.Instant) {
	lines := model.History{Epoch: epoch}
	for line := range in {
		out <- w.take(ctx, h, harness, line, &lines)
	}
}

func (w *worker) take(ctx context.Context, h *handle, harness *Harness, line string, lines *model.History) string {
	s, err := w.read(line)
	if err != nil {
		panic("scenarios: a worker was told " + line + ": " + err.Error())
	}
	o := model.Operation{ID: w.nextID(), Worker: w.number, Handle: w.handle, Kind: s.Verb, Call: 1, Return: 2}
	if !w.invoke(s, h, &o) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, callAtMost)
	defer cancel()
	if s.Cancelled {
		cancel()
	}
	w.call(ctx, s, h, &o, harness.outcome)
	if s.Reply == Seen || s.Reply == Lost && harness.Upstream != "" {
		w.learn(s, &o)
	}
	return lines.PrintOperation(&o)
}

// read parses one line of a plan in which this worker is one of many.
func (w *worker) read(line string) (*Step, error) {
	p := Plan{Zones: make([]int, w.number), Keys: w.keys}
	if err := p.parseStep(line); err != nil {
		return nil, err
	}
	return &p.Steps[0], nil
}

func (w *worker) nextID() int {
	w.last++
	return w.last
}

package scenarios

import (
	"context"
	"strings"

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
	steps, err := w.read(line)
	if err != nil {
		panic("scenarios: a worker was told " + line + ": " + err.Error())
	}
	s, gun := &steps[0], w.gun
	w.gun = nil // for the first call of a round
	ops := make([]model.Operation, len(steps))
	for i := range ops {
		ops[i] = model.Operation{ID: w.nextID(), Worker: w.number, Handle: w.handle, Kind: s.Verb, Call: 1, Return: 2}
		if !w.invoke(&steps[i], h, &ops[i]) {
			gun.leave()
			return ""
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callAtMost)
	defer cancel()
	if s.Cancelled {
		cancel()
	}
	gun.wait()
	w.call(ctx, steps, h, ops, harness.outcome)
	if s.Fault == Seen || s.Fault.onTheWire() && harness.Upstream != "" {
		w.learn(s, &ops[0])
	}
	answers := make([]string, len(ops))
	for i := range ops {
		answers[i] = lines.PrintOperation(&ops[i])
	}
	return strings.Join(answers, "\n")
}

// read parses one line of a plan in which this worker is one of many: a step, or the steps of a batch.
func (w *worker) read(line string) ([]Step, error) {
	p := Plan{Zones: make([]int, w.number), Keys: w.keys}
	for _, each := range splitLines(line) {
		if err := p.parseStep(each); err != nil {
			return nil, err
		}
	}
	return p.Steps, nil
}

func (w *worker) nextID() int {
	w.last++
	return w.last
}

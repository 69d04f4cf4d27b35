// Package tickets is a right consumer of the claiming kind, in the styles that teams give it: a message is claimed
// under a lease, handled, and its effect is booked together with DONE, if the claim is still its own.
package tickets

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Style is what right consumers differ in. Its zero value claims for 30 seconds, tells "in flight" by the result
// alone, and hands every other error up.
type Style struct {
	Lease        time.Duration // zero: 30s
	LoudInFlight bool          // in flight is an error, too
	SwallowsAll  bool          // any error is told as "in flight", and no error
	GivesBack    bool          // a failed handler gives its claim back at once
	BuryAfter    int           // so many claims are enough; zero: no bound
	Window       time.Duration // each delivery forgets what is older, by its own clock; zero: only Prune forgets
	Unsteady     bool          // every other booking's answer is lost once, and the consumer asks again
}

var (
	errInFlight = errors.New("tickets: somebody else is at it")
	errLost     = errors.New("tickets: the claim was lost")
	errNoAnswer = errors.New("tickets: no answer")
)

type message struct{ consumer, id string }

type ticket struct {
	number   int64 // of the claim, never used again
	claims   int
	until    time.Time
	finished time.Time // zero: not yet
	buried   bool
}

// Desk is what all consumers of a namespace share. It is safe for concurrent use; create it with NewDesk.
type Desk struct {
	style   Style
	mu      sync.Mutex
	last    int64
	tickets map[message]*ticket
	book    []model.Applied
}

// NewDesk returns an empty desk.
func NewDesk(style Style) *Desk {
	if style.Lease == 0 {
		style.Lease = 30 * time.Second
	}
	return &Desk{style: style, tickets: map[message]*ticket{}}
}

// Effects lists what was booked.
func (d *Desk) Effects() []model.Applied {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.book)
}

func (d *Desk) draw(k message, now time.Time) (number int64, told model.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.style.Window; w > 0 {
		d.forget(now.Add(-w))
	}
	t := d.tickets[k]
	switch {
	case t == nil:
		t = &ticket{}
		d.tickets[k] = t
	case t.buried:
		return 0, model.ResultBuried
	case !t.finished.IsZero():
		return 0, model.ResultDuplicate
	case now.Before(t.until):
		return 0, model.ResultInFlight
	}
	if n := d.style.BuryAfter; n > 0 && t.claims >= n {
		t.buried = true
		return 0, model.ResultBuried
	}
	d.last++
	t.number, t.claims, t.until = d.last, t.claims+1, now.Add(d.style.Lease)
	return t.number, model.ResultApplied
}

// bookFor books the effect and finishes the message. Asked again by the claim that did, it says so again.
func (d *Desk) bookFor(k message, number int64, now time.Time, e model.Effect) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tickets[k]
	if t == nil || t.number != number || t.buried {
		return errLost
	}
	if !t.finished.IsZero() {
		return nil
	}
	t.finished = now
	d.book = append(d.book, model.Applied{Consumer: k.consumer, MessageID: k.id, Effect: e})
	if d.style.Unsteady && len(d.book)%2 == 0 {
		return errNoAnswer
	}
	return nil
}

func (d *Desk) giveBack(k message, number int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tickets[k]; t != nil && t.number == number && t.finished.IsZero() {
		t.until = now
	}
}

func (d *Desk) forget(before time.Time) (n int) {
	for k, t := range d.tickets {
		if !t.finished.IsZero() && t.finished.Before(before) {
			delete(d.tickets, k)
			n++
		}
	}
	return n
}

// Clerk is one consumer at the desk.
type Clerk struct {
	Desk *Desk
	Now  func() time.Time
}

// Deliver handles one message.
func (c *Clerk) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	told, err := c.deliver(ctx, m)
	switch {
	case err != nil && c.Desk.style.SwallowsAll:
		return model.ResultInFlight, nil
	case err == nil && told == model.ResultInFlight && c.Desk.style.LoudInFlight:
		return told, errInFlight
	}
	return told, err
}

func (c *Clerk) deliver(ctx context.Context, m model.Message) (model.Result, error) {
	k := message{m.Consumer, m.ID}
	number, told := c.Desk.draw(k, c.Now())
	if number == 0 {
		return told, nil
	}
	if err := ctx.Err(); err != nil { // the handler's work heeds it
		if c.Desk.style.GivesBack {
			c.Desk.giveBack(k, number, c.Now())
		}
		return model.ResultInFlight, err
	}
	err := c.Desk.bookFor(k, number, c.Now(), m.Effect)
	if errors.Is(err, errNoAnswer) {
		err = c.Desk.bookFor(k, number, c.Now(), m.Effect)
	}
	if err != nil {
		return model.ResultInFlight, err
	}
	return model.ResultApplied, nil
}

// Polling is a clerk that takes batches, and forgets when told.
type Polling struct{ *Clerk }

// DeliverBatch handles one after the other. An error for one leaves it to its next delivery.
func (p Polling) DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	told := make([]model.Result, len(batch))
	for i, m := range batch {
		var err error
		if told[i], err = p.Deliver(ctx, m); err != nil {
			told[i] = model.ResultInFlight
		}
	}
	return told, nil
}

// Prune forgets what was finished before.
func (p Polling) Prune(_ context.Context, before time.Time) (int, error) {
	p.Desk.mu.Lock()
	defer p.Desk.mu.Unlock()
	return p.Desk.forget(before), nil
}

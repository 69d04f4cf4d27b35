package broken

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The flaws of a [Consumer], beside None, KeysJoined and SelectThenWrite.
const (
	AcksFirst       Flaw = "acknowledged-first"    // the record says done before the effect is tried
	EffectFirst     Flaw = "effect-first"          // the record is written after the effect, and may not be
	SeenOnly        Flaw = "seen-set"              // there is no "being processed": concurrent repeats both pass
	KeyOfTheTime    Flaw = "timestamp-key"         // the dedup key holds the time of the delivery
	KeyOfDelivery   Flaw = "consumer-made-key"     // the dedup key holds the delivery's number
	HandleOnly      Flaw = "dedup-in-the-handle"   // gone with the process, unknown to the others
	BatchLooksFirst Flaw = "batch-looks-first"     // one id twice in a batch is new twice
	BatchOfOneKind  Flaw = "batch-of-one-kind"     // one duplicate in a batch makes duplicates of all
	BatchByID       Flaw = "batch-by-id"           // repeats in a batch are found by id alone
	StuckInFlight   Flaw = "stuck-in-flight"       // what was claimed once is never taken over
	ShortWindow     Flaw = "window-too-short"      // forgets before the broker's latest redelivery
	ErrorIsDone     Flaw = "error-is-acknowledged" // an error of the handler is logged, and the message is done with
	LeaseOfMinutes  Flaw = "minutes-for-seconds"   // the unit of the lease is off by sixty, and the broker has given up by then
)

// Table is what all consumers of a namespace share.
type Table struct {
	flaw    Flaw
	mu      sync.Mutex
	rows    map[string]*consumed
	claims  int
	applied []model.Applied
}

type consumed struct {
	claim        int
	done         bool
	first, until time.Time // arrived; claimed until
	finished     time.Time
}

// NewTable makes what consumers with one flaw share, or with none.
func NewTable(flaw Flaw) *Table { return &Table{flaw: flaw, rows: map[string]*consumed{}} }

// Effects counts the effects.
func (t *Table) Effects() []model.Applied {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.applied)
}

func (t *Table) write(m model.Message) {
	t.applied = append(t.applied, model.Applied{Consumer: m.Consumer, MessageID: m.ID, Effect: m.Effect})
}

// Consumer is a home-made consumer in process, over a table. It is safe for concurrent use; see NewConsumer.
type Consumer struct {
	*Table
	rows map[string]*consumed
	now  func() time.Time
}

// NewConsumer makes a consumer with its own clock.
func NewConsumer(t *Table, now func() time.Time) *Consumer {
	if t.flaw == HandleOnly {
		return &Consumer{t, map[string]*consumed{}, now}
	}
	return &Consumer{t, t.rows, now}
}

func (c *Consumer) key(m model.Message) string {
	key := joined(c.flaw, m.Consumer, m.ID)
	switch c.flaw {
	case KeyOfTheTime:
		key += c.now().Format(time.DateOnly)
	case KeyOfDelivery:
		key += fmt.Sprint(m.Delivery)
	}
	return key
}

// Deliver handles one message: claims it, works, and books the effect together with DONE.
func (c *Consumer) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.flaw == ShortWindow {
		c.forget(now.Add(-time.Hour))
	}
	key := c.key(m)
	r := c.rows[key]
	switch {
	case r == nil:
		r = &consumed{first: now}
		if c.flaw != SeenOnly {
			c.rows[key] = r
		}
	case r.done:
		return model.ResultDuplicate, nil
	case c.flaw == StuckInFlight, now.Before(r.until):
		return model.ResultInFlight, nil
	}
	c.claims++
	claim := c.claims
	r.claim, r.until, r.done = claim, now.Add(c.lease()), c.flaw == AcksFirst
	if c.flaw == AcksFirst {
		r.finished = now
	}
	c.mu.Unlock() // the work takes its time
	runtime.Gosched()
	err := ctx.Err()
	c.mu.Lock()
	if c.flaw == EffectFirst || c.flaw == SeenOnly && err == nil {
		c.write(m)
	}
	if err != nil {
		if c.flaw == ErrorIsDone {
			r.done, r.finished = true, c.now()
			return model.ResultApplied, nil
		}
		return model.ResultInFlight, err
	}
	if r.claim != claim {
		return model.ResultInFlight, errTakenOver
	}
	r.done, r.finished = true, c.now()
	switch c.flaw {
	case EffectFirst:
	case SeenOnly:
		c.rows[key] = r
	default:
		c.write(m)
	}
	return model.ResultApplied, nil
}

var errTakenOver = errors.New("the claim was taken over")

func (c *Consumer) lease() time.Duration {
	if c.flaw == LeaseOfMinutes {
		return 30 * time.Hour
	}
	return 30 * time.Second
}

// DeliverBatch handles what one poll brought.
func (c *Consumer) DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	told := make([]model.Result, len(batch))
	switch c.flaw {
	case BatchLooksFirst:
		return c.together(ctx, batch)
	case BatchOfOneKind:
		for i, m := range batch {
			if r, err := c.Deliver(ctx, m); err != nil || r == model.ResultDuplicate {
				for ; i < len(told); i++ {
					told[i] = model.ResultDuplicate
				}
				break
			}
		}
		return told, nil
	}
	met := map[string]bool{}
	for i, m := range batch {
		if c.flaw == BatchByID && met[m.ID] {
			told[i] = model.ResultDuplicate
			continue
		}
		met[m.ID] = true
		var err error
		if told[i], err = c.Deliver(ctx, m); err != nil {
			told[i] = model.ResultInFlight
		}
	}
	return told, nil
}

// together looks for all the records first, and writes what is new in one go.
func (c *Consumer) together(ctx context.Context, batch []model.Message) ([]model.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, told := c.now(), make([]model.Result, len(batch))
	for i, m := range batch {
		switch r := c.rows[c.key(m)]; {
		case r != nil && r.done:
			told[i] = model.ResultDuplicate
		case r != nil && now.Before(r.until):
			told[i] = model.ResultInFlight
		}
	}
	for i, m := range batch {
		if told[i] == model.ResultApplied {
			c.claims++
			c.rows[c.key(m)] = &consumed{claim: c.claims, done: true, first: now, finished: now}
			c.write(m)
		}
	}
	return told, nil
}

// Prune forgets.
func (c *Consumer) Prune(_ context.Context, before time.Time) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forget(before), nil
}

func (c *Consumer) forget(before time.Time) (n int) {
	for key, r := range c.rows {
		at := r.finished
		if c.flaw == PruneAtArrival {
			at = r.first
		}
		if r.done && at.Before(before) {
			delete(c.rows, key)
			n++
		}
	}
	return n
}

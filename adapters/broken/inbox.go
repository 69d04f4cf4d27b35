package broken

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The flaws of an [Inbox], beside None, KeysJoined, KeysFolded and ChecksThenActs.
const (
	MarkTakenBack   Flaw = "mark-taken-back"     // an error takes the mark away, whoever made it
	PruneByLastSeen Flaw = "prune-by-last-seen"  // each duplicate makes the mark young again
	MarkFirst       Flaw = "mark-then-effect"    // the mark is committed on its own, then the effect
	EffectBefore    Flaw = "effect-then-mark"    // the effect is committed on its own, then the mark
	MarksOnError    Flaw = "marks-on-error"      // the mark is kept although the effect was not written
	AppliedOnError  Flaw = "duplicate-on-error"  // whatever goes wrong is taken for a duplicate
	SelectThenWrite Flaw = "select-then-insert"  // looks for the mark, and writes in a second step
	PruneAtArrival  Flaw = "prune-by-arrival"    // the window is counted from the first delivery
	PruneOneUnitOff Flaw = "prune-one-unit-off"  // <= where < belongs
	PruneForgetsAll Flaw = "prune-forgets-young" // the cut-off is compared the wrong way round
)

// Inbox is a home-made inbox in process. It is safe for concurrent use; see NewInbox.
type Inbox struct {
	flaw    Flaw
	mu      sync.Mutex
	marks   map[string]time.Time
	applied []model.Applied
}

// NewInbox makes an inbox with one flaw, or none.
func NewInbox(flaw Flaw) *Inbox { return &Inbox{flaw: flaw, marks: map[string]time.Time{}} }

// joined is the one text under which a message is kept; the length keeps the two parts apart.
func joined(flaw Flaw, consumer, id string) string {
	if flaw == KeysJoined {
		return consumer + ":" + id
	}
	return strconv.Itoa(len(consumer)) + ":" + consumer + id
}

// ApplyOnce applies a message that has no mark.
func (i *Inbox) ApplyOnce(ctx context.Context, consumer, id string, now time.Time, effect model.Effect) (applied bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := joined(i.flaw, consumer, id)
	_, marked := i.marks[key]
	if i.flaw == SelectThenWrite {
		i.mu.Unlock() // here others come in between
		runtime.Gosched()
		i.mu.Lock()
	}
	if i.flaw == MarkTakenBack {
		defer func() {
			if err != nil {
				delete(i.marks, key)
			}
		}()
	}
	if i.flaw == MarksOnError && !marked {
		i.marks[key] = now
	}
	switch err := ctx.Err(); {
	case err != nil && i.flaw == AppliedOnError:
		return false, nil
	case err != nil:
		return false, err
	case marked && i.flaw == PruneByLastSeen:
		i.marks[key] = now
		return false, nil
	case marked:
		return false, nil
	}
	i.marks[key] = now
	i.applied = append(i.applied, model.Applied{Consumer: consumer, MessageID: id, Effect: effect})
	return true, nil
}

// Prune forgets.
func (i *Inbox) Prune(_ context.Context, before time.Time) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	removed := 0
	for key, at := range i.marks {
		old := at.Before(before)
		switch i.flaw {
		case PruneOneUnitOff:
			old = !at.After(before)
		case PruneForgetsAll:
			old = !at.Before(before)
		}
		if old {
			delete(i.marks, key)
			removed++
		}
	}
	return removed, nil
}

// Effects counts the effects.
func (i *Inbox) Effects() []model.Applied {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.applied)
}

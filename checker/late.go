package checker

import (
	"fmt"

	"github.com/effectonce/effectonce/model"
)

// late is the first call that did not return within its bound. It is judged last: safety comes before liveness.
func late(rules *model.Rules, events []model.Event) *model.Event {
	for i := range events {
		if events[i].Late && !rules.Excuses(model.EveryCallReturns) {
			return &events[i]
		}
	}
	return nil
}

func lateReason(h *model.History, e *model.Event, events []model.Event) *Reason {
	found := &finding{key: e.Key, guilty: e, moment: told(e)}
	r := newReason(model.EveryCallReturns, found)
	r.Sentence = fmt.Sprintf("#%d %s by w%d had not returned when its bound was over", e.ID, e.Kind, e.Worker)
	r.Wrong = wrong(r.Invariant, found)
	r.Operations = matter(events, found, nil)
	return r
}

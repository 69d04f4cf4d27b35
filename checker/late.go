package checker

import (
	"fmt"

	"github.com/effectonce/effectonce/model"
)

// late is the first call that did not return within its bound. It is judged last: safety comes before liveness.
func late(events []model.Event) *model.Event {
	for i := range events {
		if events[i].Late {
			return &events[i]
		}
	}
	return nil
}

func lateReason(h *model.History, events []model.Event) *Reason {
	e := late(events)
	found := &finding{key: e.Key, guilty: e.ID}
	return &Reason{
		Invariant: model.EveryCallReturns, Statement: model.EveryCallReturns.Statement(),
		Consumer: e.Key.Consumer, MessageID: e.Key.ID, Guilty: e.ID,
		Sentence:   fmt.Sprintf("#%d %s by w%d had not returned when its bound was over", e.ID, e.Kind, e.Worker),
		Operations: matter(events, found, nil),
	}
}

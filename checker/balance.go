package checker

import (
	"fmt"

	"github.com/effectonce/effectonce/model"
)

// unbalanced is the first effect that is not what was committed: of another account or amount, of another message, or
// of nobody's call. How often an effect was found is judged with the calls.
func unbalanced(h *model.History, rules *model.Rules, events []model.Event) *Reason {
	if rules.Excuses(model.BalanceKept) || len(h.Effects) == 0 {
		return nil
	}
	calls := make(map[string]*model.Event, len(h.Effects))
	last := map[model.Key]*model.Event{}
	for i := range events {
		e := &events[i]
		if e.Effect.ID != "" {
			calls[e.Effect.ID], last[e.Key] = e, e
		}
	}
	for _, row := range h.Effects {
		e := calls[row.Effect.ID]
		switch {
		case e != nil && e.Key == row.Key && e.Effect == row.Effect:
			continue
		case e == nil && last[row.Key] == nil:
			continue // the ledger of a namespace is read whole
		case e == nil:
			return balanceReason(last[row.Key], events, fmt.Sprintf("an effect %q was found that no call committed", row.Effect.ID))
		}
		return balanceReason(e, events, fmt.Sprintf("#%d committed %q: account %q, amount %d; found was account %q, amount %d, of %v",
			e.ID, e.Effect.ID, e.Effect.Account, e.Effect.Amount, row.Effect.Account, row.Effect.Amount, row.Key))
	}
	return nil
}

func balanceReason(e *model.Event, events []model.Event, sentence string) *Reason {
	found := &finding{key: e.Key, guilty: e}
	r := newReason(model.BalanceKept, found)
	r.Sentence, r.Wrong = sentence, "its effect is not what was committed"
	r.Operations = matter(events, found, nil)
	return r
}

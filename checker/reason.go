package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/effectonce/effectonce/model"
)

// reasons are the promises that are tried as the reason of a violation, the narrower before the wider. A promise
// is the reason if the whole history is explained once exactly this promise may be broken. KeysIndependent is
// tried by reading two keys as one.
func reasons() []model.InvariantID {
	return []model.InvariantID{
		model.StaleClaimRefusedAfterForgetting,
		model.StaleClaimRefused,
		model.AttemptsCountClaims,
		model.TakeoverAfterExpiry,
		model.NoEarlySteal,
		model.AtMostOneEffect,
		model.NoLostEffect,
		model.ForgottenAfterWindow,
		model.RememberedInWindow,
		model.PruneOnlyOldDone,
		model.ExclusiveClaim,
		model.DoneStaysDone,
		model.KeysIndependent,
		model.TypedAnswers,
	}
}

// reason names the promise whose breach explains the history. Where no single one does, the operation that cannot
// be explained decides.
func (j *Judge) reason(h *model.History, rules *model.Rules, events []model.Event, found *finding) *Reason {
	r := &Reason{
		Consumer: found.key.Consumer, MessageID: found.key.ID, Guilty: found.guilty,
		Sentence: sentence(h, found),
	}
	others := []model.Key{}
	r.Invariant, others = j.broken(rules, events, found)
	r.Statement = r.Invariant.Statement()
	r.Operations = matter(events, found, others)
	return r
}

func (j *Judge) broken(rules *model.Rules, events []model.Event, found *finding) (model.InvariantID, []model.Key) {
	trial := Judge{Timeout: j.Timeout}
	for _, id := range reasons() {
		if id == model.KeysIndependent {
			if other, ok := trial.merged(rules, events, found); ok {
				return id, []model.Key{other}
			}
			continue
		}
		if trial.explained(rules.Excusing(id), events) {
			return id, nil
		}
	}
	if found.guilty < len(events) {
		// More than one promise was broken, perhaps. What came before the first breach is enough to name it.
		return j.broken(rules, events[:found.guilty], found)
	}
	return byAnswer(&events[found.guilty-1], found), nil
}

// Wider reports whether promise a is wider than b: tried after it as a reason, since it takes less for granted.
func Wider(a, b model.InvariantID) bool {
	return slices.Index(reasons(), a) > slices.Index(reasons(), b)
}

func (j *Judge) explained(rules *model.Rules, events []model.Event) bool {
	j.group(events)
	found, limit := j.explain(rules, events, &Judgement{})
	return found == nil && limit == ""
}

// mergesAtMost bounds the pairs of keys that are tried as one.
const mergesAtMost = 64

// merged looks for a second key that, read as the same as the first, makes the history right.
func (j *Judge) merged(rules *model.Rules, events []model.Event, found *finding) (model.Key, bool) {
	keys := keysOf(events)
	firsts := []model.Key{found.key}
	if found.key == (model.Key{}) {
		firsts = keys
	}
	tried := 0
	for _, first := range firsts {
		for _, second := range keys {
			if first == second {
				continue
			}
			if tried++; tried > mergesAtMost {
				return model.Key{}, false
			}
			if j.explained(rules, readAsOne(events, first, second)) {
				return second, true
			}
		}
	}
	return model.Key{}, false
}

func keysOf(events []model.Event) []model.Key {
	var keys []model.Key
	for i := range events {
		if e := &events[i]; e.Kind.Keyed() && !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func readAsOne(events []model.Event, first, second model.Key) []model.Event {
	merged := slices.Clone(events)
	for i := range merged {
		if merged[i].Kind.Keyed() && merged[i].Key == second {
			o := *merged[i].Operation
			o.Key = first
			merged[i].Operation = &o
		}
	}
	return merged
}

// byAnswer names a promise from the guilty answer alone.
func byAnswer(e *model.Event, found *finding) model.InvariantID {
	state := model.Absent
	if len(found.before) > 0 {
		state = found.before[0].State
	}
	switch {
	case e.Kind == model.Prune:
		return model.PruneOnlyOldDone
	case e.Kind.Claims() && e.Granted() && state == model.Processing:
		return model.ExclusiveClaim
	case e.Kind.Claims() && e.Granted() && state == model.Done:
		return model.DoneStaysDone
	case e.Kind.Fenced() && e.Answer.Outcome == model.OK:
		return model.StaleClaimRefused
	}
	return model.TypedAnswers
}

func sentence(h *model.History, found *finding) string {
	o := &h.Operations[found.guilty-1]
	if found.why != "" {
		return fmt.Sprintf("#%d %s: %s", o.ID, o.Kind, found.why)
	}
	var states []string
	for _, s := range found.before {
		if d := s.Describe(h); !slices.Contains(states, d) {
			states = append(states, d)
		}
	}
	return fmt.Sprintf("#%d %s by w%d was answered %q, but the record was %s",
		o.ID, o.Kind, o.Worker, answered(h, o), strings.Join(states, ", or "))
}

func wrongCount(told, least, most int) string {
	if least == most {
		return fmt.Sprintf("told that %d were removed, where %d were old and DONE", told, least)
	}
	return fmt.Sprintf("told that %d were removed, where between %d and %d were old and DONE", told, least, most)
}

// matterAtMost is how many operations of one key an explanation shows.
const matterAtMost = 14

// matter picks the operations that a reader needs: those of the guilty key (and of the one it is confused with),
// and the prunes. Of a long history only the last ones.
func matter(events []model.Event, found *finding, others []model.Key) []int {
	var ids []int
	for i := range events[:found.guilty] {
		e := &events[i]
		switch {
		case e.Kind == model.Prune, e.Key == found.key, slices.Contains(others, e.Key), found.key == model.Key{}:
			ids = append(ids, e.ID)
		}
	}
	// An operation that was called before the guilty one returned may have been placed before it.
	for i := found.guilty; i < len(events); i++ {
		if e := &events[i]; e.Key == found.key && overlap(e, &events[found.guilty-1]) {
			ids = append(ids, e.ID)
		}
	}
	if extra := len(ids) - matterAtMost; extra > 0 {
		ids = ids[extra:]
	}
	return ids
}

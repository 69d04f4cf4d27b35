package checker

import (
	"math"
	"slices"

	"github.com/effectonce/effectonce/model"
)

// reasons are the promises that are tried as the reason of a violation, the narrower before the wider. A promise
// is the reason if the history is explained once exactly this promise may be broken. KeysIndependent is tried by
// reading two keys as one.
func reasons() []model.InvariantID {
	return []model.InvariantID{
		model.StaleClaimRefusedAfterForgetting,
		model.StaleClaimRefused,
		model.AttemptsCountClaims,
		model.TakeoverAfterExpiry,
		model.NoEarlySteal,
		model.AtMostOneEffect,
		model.KeysIndependent,
		model.NoLostEffect,
		model.ForgottenAfterWindow,
		model.RememberedInWindow,
		model.PruneOnlyOldDone,
		model.ExclusiveClaim,
		model.DoneStaysDone,
		model.TypedAnswers,
	}
}

// Wider reports whether promise a is wider than b: tried after it as a reason, since it takes less for granted.
func Wider(a, b model.InvariantID) bool {
	return slices.Index(reasons(), a) > slices.Index(reasons(), b)
}

func newReason(id model.InvariantID, found *finding) *Reason {
	return &Reason{
		Invariant: id, Statement: id.Statement(), Consumer: escaped(found.key.Consumer), MessageID: escaped(found.key.ID),
		Guilty: found.guilty.ID,
	}
}

// reason names the promise whose breach explains the history. Where no single one does, what came before the first
// breach may be enough to name it; else the operation that cannot be explained decides.
func (j *Judge) reason(h *model.History, rules *model.Rules, found *finding) *Reason {
	j.budget.left = j.budget.key
	id, other := j.broken(rules, found)
	r := newReason(id, found)
	r.Sentence, r.Wrong = sentence(h, rules, found, other), wrong(id, found)
	r.Operations = matter(j.events, found, other)
	return r
}

// broken tries each promise on the little that had happened by the first breach, which is cheap, and only then on the
// whole, which tells more: what does not explain the beginning cannot explain the whole.
func (j *Judge) broken(rules *model.Rules, found *finding) (model.InvariantID, *model.Key) {
	beginning, whole := j.trial(rules, found, found.moment), j.trial(rules, found, math.MaxInt64)
	var fit []model.InvariantID
	for _, id := range j.candidates(found) {
		if _, ok := beginning.excuse(id, found); !ok {
			continue
		}
		if by, ok := whole.excuse(id, found); ok {
			return id, by
		}
		fit = append(fit, id)
	}
	if len(fit) == 0 {
		return byAnswer(found), nil
	}
	id := j.longest(rules, found, fit)
	by, _ := beginning.excuse(id, found)
	return id, by
}

// candidates are the reasons in the order in which they are tried. Of two claims that were granted at once, and a prune
// beside them that may have removed the first, the claims are the likelier story.
func (j *Judge) candidates(found *finding) []model.InvariantID {
	all := reasons()
	if !j.rivals(found.guilty) {
		return all
	}
	all = slices.DeleteFunc(all, func(id model.InvariantID) bool { return id == model.ExclusiveClaim })
	return slices.Insert(all, slices.Index(all, model.PruneOnlyOldDone), model.ExclusiveClaim)
}

// rivals reports whether another claim of the same message was granted while this one was.
func (j *Judge) rivals(e *model.Event) bool {
	return e.Granted() && slices.ContainsFunc(j.events, func(o model.Event) bool {
		return o.ID != e.ID && o.Key == e.Key && o.Granted() && overlap(&o, e)
	})
}

// answersAtMost bounds the answers after the breach that reasons are held against.
const answersAtMost = 32

// longest is the reason that explains most of what came after the breach, where none explains the whole: what was
// under way at the breach may have done anything, until its own answer says otherwise.
func (j *Judge) longest(rules *model.Rules, found *finding, fit []model.InvariantID) model.InvariantID {
	var moments []int64
	for i := range j.events {
		if moment := told(&j.events[i]); moment > found.moment && moment != math.MaxInt64 {
			moments = append(moments, moment)
		}
	}
	slices.Sort(moments)
	for _, moment := range moments[:min(len(moments), answersAtMost)] {
		t := j.trial(rules, found, moment)
		still := slices.DeleteFunc(slices.Clone(fit), func(id model.InvariantID) bool {
			_, ok := t.excuse(id, found)
			return !ok
		})
		if len(still) == 0 {
			break
		}
		if fit = still; len(fit) == 1 {
			break
		}
	}
	return fit[0]
}

// excuse says whether breaking one promise explains what was judged; for KeysIndependent, with which other key.
func (t *trial) excuse(id model.InvariantID, found *finding) (*model.Key, bool) {
	if id != model.KeysIndependent {
		return nil, t.explained(t.rules.Excusing(id), t.doubted)
	}
	other, ok := t.merged(found)
	return &other, ok
}

// trial asks whether wider rules explain what the contract does not.
type trial struct {
	*Judge
	rules   *model.Rules
	moment  int64 // up to which it judges
	doubted []group
	prunes  []*model.Event // those whose count is judged
}

// keysInDoubt bounds the keys that are judged again with every promise. Of a history with more of them only the
// violated ones are, and what a prune counted, over all keys, is left out of the question.
const keysInDoubt = 100

// trial takes up what had happened by a moment: that of the first breach, a later one, or the end of all.
func (j *Judge) trial(rules *model.Rules, found *finding, moment int64) *trial {
	t := &trial{Judge: j, rules: rules, moment: moment}
	all := len(j.groups) <= keysInDoubt || found.why != ""
	if all {
		t.prunes = cut(j.prunes, t.moment)
	}
	for i := range j.groups {
		g := j.groups[i]
		if all || g.key == found.key || g.violated && moment > found.moment {
			g.events = cut(g.events, t.moment)
			t.doubted = append(t.doubted, g)
		}
	}
	return t
}

func (t *trial) explained(rules *model.Rules, doubted []group) bool {
	removed := newRemovals(t.Judge.prunes)
	for i := range doubted {
		if f, limit := t.explainKey(rules, &doubted[i], removed, &Judgement{}); f != nil || limit != "" {
			return false
		}
	}
	return removed.wrongCount(rules, t.prunes) == nil
}

// mergesAtMost bounds the pairs of keys that are tried as one.
const mergesAtMost = 512

// merged looks for a second key that, read as the same as the first, makes the history right.
func (t *trial) merged(found *finding) (model.Key, bool) {
	tried := 0
	for i := range t.groups {
		first := &t.groups[i]
		if found.why == "" && first.key != found.key {
			continue
		}
		for k := range t.groups {
			second := &t.groups[k]
			if first == second {
				continue
			}
			if tried++; tried > mergesAtMost {
				return model.Key{}, false
			}
			if t.explained(t.rules, t.asOne(first, second)) {
				return second.key, true
			}
		}
	}
	return model.Key{}, false
}

// asOne replaces two keys by one that is called as both of them were.
func (t *trial) asOne(first, second *group) []group {
	both := group{key: first.key}
	events := slices.Concat(cut(first.events, t.moment), cut(second.events, t.moment))
	slices.SortFunc(events, func(a, b *model.Event) int { return a.ID - b.ID })
	for i, e := range events {
		switch {
		case i > 0 && events[i-1].ID == e.ID: // a prune of both
		case e.Kind.Keyed() && e.Key != first.key:
			o, renamed := *e.Operation, *e
			o.Key = first.key
			renamed.Operation = &o
			both.add(&renamed)
		default:
			both.add(e)
		}
	}
	doubted := []group{both}
	for _, g := range t.doubted {
		if g.key != first.key && g.key != second.key {
			doubted = append(doubted, g)
		}
	}
	return doubted
}

// byAnswer names a promise from the guilty answer alone.
func byAnswer(found *finding) model.InvariantID {
	e, state := found.guilty, model.Absent
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

package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/model"
)

// statesShown is how many of the states that a record may have been in a sentence lists.
const statesShown = 4

// sentence says what was answered, and why that cannot be.
func sentence(h *model.History, rules *model.Rules, found *finding, other *model.Key) string {
	e := found.guilty
	if found.why != "" {
		return fmt.Sprintf("#%d %s: %s", e.ID, e.Kind, found.why)
	}
	text := fmt.Sprintf("#%d %s by w%d was answered %s", e.ID, e.Kind, e.Worker, answered(h, e.Operation))
	if e.Effect.ID != "" && e.Rows >= 0 {
		text += fmt.Sprintf(", and its effect was found %s", times(e.Rows))
	}
	var states []string
	for _, s := range found.before {
		if d := s.Describe(h); !slices.Contains(states, d) && len(states) < statesShown {
			states = append(states, d)
		}
	}
	if len(states) > 0 {
		text += ", but the record was " + strings.Join(states, ", or ")
	} else {
		text += ", which nothing explains"
	}
	if right := rightClaim(rules, found); right != nil {
		text += fmt.Sprintf("; a claim would have made it %s", right.Describe(h))
	}
	if other != nil {
		text += fmt.Sprintf("; read as one key with %v, it is explained", *other)
	}
	return text
}

// rightClaim is what a granted claim should have made of the record, where it could be claimed at all.
func rightClaim(rules *model.Rules, found *finding) *model.KeyState {
	if !found.guilty.Granted() {
		return nil
	}
	o, asked := *found.guilty.Operation, *found.guilty
	o.Closed, o.Fault, o.Answer = o.Return, 1, model.Answer{Refusal: model.Failed} // whatever it might have been answered
	asked.Operation = &o
	for _, s := range found.before.Next(rules, &asked) {
		if s.State == model.Processing && s.Claim == asked.Grants {
			return &s
		}
	}
	return nil
}

func times(n int) string {
	switch n {
	case 0:
		return "nowhere"
	case 1:
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func wrongCount(told, least, most int) string {
	if least == most {
		return fmt.Sprintf("told that it removed %d, of %d that were old and DONE", told, least)
	}
	return fmt.Sprintf("told that it removed %d, where it can have been %d at least and %d at most", told, least, most)
}

// wrong says in a few words what the broken promise makes of the guilty answer. Where the answer is not itself the
// breach but shows it, it says so.
func wrong(id model.InvariantID, found *finding) string {
	e := found.guilty
	claimed := e.Kind.Claims() && e.Granted()
	held := slices.ContainsFunc(found.before, func(s model.KeyState) bool { return s.State == model.Processing })
	accepted := e.Kind.Fenced() && e.Answer.Outcome == model.OK
	either := func(itself bool, breach, shown string) string {
		if itself {
			return breach
		}
		return shown
	}
	switch id {
	case model.StaleClaimRefused:
		again := claimed && slices.ContainsFunc(found.before, func(s model.KeyState) bool { return s.Token == e.Answer.Token })
		if again {
			return "the token of an earlier claim was given again"
		}
		return either(accepted, "the stale claim was accepted", "a stale claim had its way, as this shows")
	case model.StaleClaimRefusedAfterForgetting:
		return either(accepted, "a claim from before the forgetting was accepted", "a claim from before the forgetting had its way, as this shows")
	case model.AttemptsCountClaims:
		return "attempts do not count the claims"
	case model.TakeoverAfterExpiry:
		if e.Kind == model.Deliver {
			return "still in flight, and nobody is at it"
		}
		return either(e.Kind.Claims() && !claimed, "refused although the lease was over", "a lease longer than was asked for")
	case model.NoEarlySteal:
		return either(claimed && held, "claimed before the lease was over", "a lease shorter than was asked for")
	case model.AtMostOneEffect:
		if e.Rows > 1 {
			return "the effect was written " + times(e.Rows)
		}
		return either(e.Rows > 0, "the effect was written again", "an effect had been written twice")
	case model.NoLostEffect:
		return "the effect was not written"
	case model.ForgottenAfterWindow:
		return either(e.Kind == model.Prune, "something old and DONE was left", "a prune had left it")
	case model.RememberedInWindow:
		if e.Answer.State == model.Done {
			return "its window does not begin at its completion"
		}
		return "forgotten too early"
	case model.PruneOnlyOldDone:
		return either(e.Kind == model.Prune, "something was removed that was not old and DONE", "a prune had removed it")
	case model.ExclusiveClaim:
		return either(claimed, "claimed while another claim was live", "a second claim had been granted")
	case model.DoneStaysDone:
		return notDone(found)
	case model.KeysIndependent:
		return "the other key explains this"
	case model.EveryCallReturns:
		return "has not returned"
	}
	return untrue(found)
}

// notDone is what became of a message that should have stayed as it was.
func notDone(found *finding) string {
	e := found.guilty
	was := func(is func(model.KeyState) bool) bool { return slices.ContainsFunc(found.before, is) }
	switch {
	case e.Granted() && was(func(s model.KeyState) bool { return s.State == model.Dead }):
		return "a DEAD message was claimed again"
	case e.Granted():
		return "a DONE message was claimed again"
	case e.Answer.State == model.Done && was(func(s model.KeyState) bool { return s.HasResult }):
		return "the kept result is another one"
	}
	return "it was DONE, and is told otherwise"
}

// untrue is an answer that no single promise explains.
func untrue(found *finding) string {
	e := found.guilty
	switch {
	case found.why != "":
		return "the count is not true"
	case e.Answer.Outcome != model.OK:
		return "an error without a cause"
	case e.Fault != 0 && e.Kind != model.Deliver:
		return "answered although its reply was lost: something repeats the call"
	case e.Kind == model.Complete && model.Possible(found.before).AllAbsent():
		return "ok, and there is no record"
	}
	return "this is not true"
}

// matterAtMost is how many operations an explanation shows.
const matterAtMost = 14

// matter picks the operations that a reader needs: those of the guilty key (and of the one it is confused with), and
// the prunes, as far as they may have taken effect before the guilty answer came. Of a long history only the last
// ones, with the claim that was presented; what certainly changed nothing goes first.
func matter(events []model.Event, found *finding, other *model.Key) []int {
	guilty := found.guilty
	var ids []int
	began := found.why != "" // prunes from before the key was first called tell nothing
	for i := range events {
		e := &events[i]
		ours := e.Key == found.key || other != nil && e.Key == *other || found.why != ""
		began = began || ours && e.Kind.Keyed()
		if e.Call <= max(found.moment, told(guilty)) && began && (ours || e.Kind == model.Prune) {
			ids = append(ids, e.ID)
		}
	}
	kept := func(id int) bool { return id == guilty.ID || id == guilty.Claim || id == guilty.Presented }
	for _, idle := range []bool{true, false} {
		for i := 0; i < len(ids) && len(ids) > matterAtMost; {
			if e := &events[ids[i]-1]; !kept(e.ID) && (!idle || changedNothing(e)) {
				ids = slices.Delete(ids, i, i+1)
			} else {
				i++
			}
		}
	}
	return ids
}

// changedNothing: the answer itself says so.
func changedNothing(e *model.Event) bool {
	a := &e.Answer
	return e.Known() && (a.Outcome == model.NotApplied || e.Kind == model.Lookup || e.Kind.Claims() && !a.Yes || e.Kind == model.Prune && a.Count == 0 && e.Alone)
}

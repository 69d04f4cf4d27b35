package model

import "math/bits"

// Marks is a set of places that a history came to. A run that never came to a place has shown nothing about it.
type Marks uint32

// The marks.
const (
	LiveClaimRefused     Marks = 1 << iota // a claim was asked for while another one was live
	TakenOver                              // a lease ran out under its owner, and somebody took over
	TakenOverAtTheEnd                      // at exactly the instant at which the lease ended
	RefusedBeforeTheEnd                    // within one unit before it
	DoneMet                                // a redelivery met DONE
	StalePresented                         // a claim that was taken over was presented
	StaleAfterForgetting                   // a claim from before a forgetting was presented
	LateCompletion                         // an owner completed after its lease, before anyone took over
	CompletionRepeated                     // an owner completed again what it had completed
	PruneRemoved                           // prune forgot a DONE record
	PruneSparedYoung                       // prune met a DONE record that was too young
	PruneSparedClaim                       // prune met a claim
	ClaimedAgain                           // a forgotten message was claimed again
	ReplyLost                              // a reply was lost after the store had done the work
	AskedAgain                             // an owner whose reply was lost asked again with its nonce
	EffectCommitted                        // an effect was committed with DONE
	ReleasedTaken                          // a claim that was given back was claimed again
	ReleasedHeld                           // a claim that was given back was refused until it was visible
	Extended                               // an owner prolonged its lease
	DeadMet                                // a redelivery met a dead letter
	Replayed                               // a dead letter was opened again
	ResultTold                             // a redelivery brought a kept result back
	Resumed                                // a delivery finished what an earlier one had left open
	ByKeyMeanwhile                         // somebody else than the owner completed by key
	ByKeyAccepted                          // and was accepted: nothing but a claim tells them apart
	marksEnd
)

var markNames = [...]string{
	"live claim refused", "lease ran out and was taken over", "taken over at exactly the lease's end",
	"refused just before the lease's end", "redelivery met DONE", "stale claim presented",
	"stale claim presented after a forgetting", "owner completed late", "completion repeated", "prune removed",
	"prune spared a young record", "prune spared a claim", "claimed again after a forgetting",
	"reply lost after the store did the work", "asked again after a lost reply", "effect committed with DONE", "released claim taken again",
	"released claim refused until visible", "lease extended", "redelivery met DEAD", "dead letter opened again",
	"kept result told to a redelivery", "unfinished delivery finished by a later one",
	"completed by key by another than the owner", "completed by key by another than the owner, and accepted",
}

// Names lists the marks of the set in words.
func (m Marks) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(m)))
	for each := Marks(1); each < marksEnd; each <<= 1 {
		if m&each != 0 {
			names = append(names, markNames[bits.TrailingZeros32(uint32(each))])
		}
	}
	return names
}

// AllMarks is the set of all.
func AllMarks() Marks { return marksEnd - 1 }

// Reached says which marks an operation reaches on a record in state s.
func (r *Rules) Reached(s KeyState, e *Event) Marks {
	var m Marks
	if e.Unseen && (e.Granted() || e.Answer.Outcome == OK && !shapes[e.Kind].record) || e.Applied {
		m |= ReplyLost
	}
	switch e.Kind {
	case Begin, BeginAs:
		m |= r.reachedByBegin(s, e)
	case CompleteClaim, CommitEffect, CompleteResult, Release, Extend, Bury:
		m |= r.reachedByClaim(s, e)
	case Replay:
		if s.State == Dead && e.Answer.Outcome == OK {
			m |= Replayed
		}
	case Complete:
		if s.State == Processing && s.Handle != 0 && s.Handle != e.Handle && e.Known() {
			m |= ByKeyMeanwhile
			if e.Answer.Outcome == OK {
				m |= ByKeyAccepted
			}
		}
		if s.State == Processing && s.Handle == e.Handle && r.reached(r.now(e), s.lease) == yes {
			m |= LateCompletion
		}
	case Prune:
		switch {
		case s.State == Processing:
			m |= PruneSparedClaim
		case s.State == Done && r.old(s, e) == yes:
			m |= PruneRemoved
		case s.State == Done && r.old(s, e) == no:
			m |= PruneSparedYoung
		}
	case ApplyOnce, Deliver:
		m |= reachedByDelivery(s, e)
	}
	if e.Rows == 1 {
		m |= EffectCommitted
	}
	return m
}

func (r *Rules) reachedByBegin(s KeyState, e *Event) Marks {
	now := r.now(e)
	switch {
	case s.State == Done && e.Answer.Outcome == OK && s.HasResult:
		return DoneMet | ResultTold
	case s.State == Done && e.Answer.Outcome == OK:
		return DoneMet
	case s.State == Dead && e.Answer.Outcome == OK:
		return DeadMet
	case s.Released && e.Granted():
		return ReleasedTaken
	case s.Released && e.Answer.Outcome == OK:
		return ReleasedHeld
	case s.forgot && e.Granted():
		return ClaimedAgain
	case s.State != Processing || e.Answer.Outcome != OK:
		return 0
	case e.Answer.Yes && e.Nonce != "" && e.Nonce == s.Nonce && r.reached(now, s.lease) == no:
		return AskedAgain
	case e.Answer.Yes && now.from == s.lease.from:
		return TakenOver | TakenOverAtTheEnd
	case e.Answer.Yes:
		return TakenOver
	case now.from < s.lease.from && s.lease.from.Sub(now.from) <= r.Precision:
		return LiveClaimRefused | RefusedBeforeTheEnd
	}
	return LiveClaimRefused
}

func reachedByDelivery(s KeyState, e *Event) Marks {
	again := e.Kind == ApplyOnce && !e.Answer.Yes
	if e.Kind == Deliver { // an effect that is idempotent by itself may be told as "applied" again
		again = e.Answer.Told == ResultDuplicate || e.Answer.Told == ResultApplied && e.Rows == 0
	}
	switch {
	case e.Answer.Outcome != OK:
		return 0
	case s.State == Done && again:
		return DoneMet
	case s.State == Processing && s.consumed && e.Answer.Told != ResultInFlight:
		return Resumed
	case s.State == Absent && s.forgot && !again:
		return ClaimedAgain
	}
	return 0
}

func (r *Rules) reachedByClaim(s KeyState, e *Event) Marks {
	mine := s.Claim != 0 && s.Claim == e.Presented
	switch {
	case e.Presented == 0:
		return 0
	case mine && s.State == Done && e.Answer.Outcome == OK:
		return CompletionRepeated
	case mine && s.State == Processing && r.reached(r.now(e), s.lease) == yes:
		return LateCompletion
	case mine && e.Kind == Extend && e.Answer.Outcome == OK:
		return Extended
	case mine:
		return 0
	case s.State == Absent || e.Presented < s.Born:
		return StaleAfterForgetting
	}
	return StalePresented
}

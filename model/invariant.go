package model

import "slices"

// InvariantID names one row of the invariant table. A row gives the reason why no resolution of the unknown
// outcomes explains a history, or it counts effects; it never accuses by itself.
type InvariantID string

// The invariants, in the order in which reasons are tried: the narrower before the wider.
const (
	ExclusiveClaim                   InvariantID = "ExclusiveClaim"
	NoEarlySteal                     InvariantID = "NoEarlySteal"
	TakeoverAfterExpiry              InvariantID = "TakeoverAfterExpiry"
	AttemptsCountClaims              InvariantID = "AttemptsCountClaims"
	DoneStaysDone                    InvariantID = "DoneStaysDone"
	StaleClaimRefused                InvariantID = "StaleClaimRefused"
	StaleClaimRefusedAfterForgetting InvariantID = "StaleClaimRefusedAfterForgetting"
	PruneOnlyOldDone                 InvariantID = "PruneOnlyOldDone"
	RememberedInWindow               InvariantID = "RememberedInWindow"
	ForgottenAfterWindow             InvariantID = "ForgottenAfterWindow"
	KeysIndependent                  InvariantID = "KeysIndependent"
	SurvivesRestart                  InvariantID = "SurvivesRestart"
	TypedAnswers                     InvariantID = "TypedAnswers"
	EveryCallReturns                 InvariantID = "EveryCallReturns"
	AtMostOneEffect                  InvariantID = "AtMostOneEffect"
	NoLostEffect                     InvariantID = "NoLostEffect"
	BalanceKept                      InvariantID = "BalanceKept"
)

// Invariant is one promise: its name, the sentence that a failure prints, and the operations that carry it. What offers
// none of them does not promise it.
type Invariant struct {
	ID        InvariantID
	Statement string
	Kinds     []Kind
}

// Invariants returns the table, one row a promise.
func Invariants() []Invariant { return slices.Clone(invariants) }

// What carries promises about claims, about a claim that is presented, about effects, about any message, about forgetting.
func claiming() []Kind { return []Kind{Begin} }
func presenting() []Kind {
	return []Kind{CompleteClaim, CommitEffect, CompleteResult, Release, Extend, Bury}
}
func effecting() []Kind  { return []Kind{CommitEffect, ApplyOnce, Deliver} }
func handling() []Kind   { return []Kind{Begin, ApplyOnce, Deliver} }
func forgetting() []Kind { return []Kind{Prune} }

var invariants = []Invariant{
	{ExclusiveClaim, "at most one claim of a message is live at any instant", claiming()},
	{NoEarlySteal, "a claim is not taken over before its lease ends", claiming()},
	{TakeoverAfterExpiry, "a claim whose lease is over can be taken over: at that instant, and not later", []Kind{Begin, Deliver}},
	{AttemptsCountClaims, "attempts is 1 at the first claim and one more at each takeover", claiming()},
	{DoneStaysDone, "a message that is DONE or DEAD is not claimed again, and a kept result stays", claiming()},
	{StaleClaimRefused, "a claim that was taken over cannot change the record any more", presenting()},
	{StaleClaimRefusedAfterForgetting, "a claim from before its message was forgotten cannot change the new record", presenting()},
	{PruneOnlyOldDone, "prune removes DONE records older than the cut-off, and nothing else", forgetting()},
	{RememberedInWindow, "DONE is remembered for the whole dedup window, counted from completion", handling()},
	{ForgottenAfterWindow, "prune forgets every DONE record older than the cut-off", forgetting()},
	{KeysIndependent, "two different keys never influence each other", handling()},
	{SurvivesRestart, "what was acknowledged is still true after a restart", handling()},
	{TypedAnswers, "a healthy store answers, and answers the truth: no unexplained error, no false DONE, no false claim", handling()},
	{EveryCallReturns, "every call returns within its bound", handling()},
	{AtMostOneEffect, "a message's effect is applied at most once within its dedup window", effecting()},
	{NoLostEffect, "a message that is DONE has had its effect", effecting()},
	{BalanceKept, "an account's balance is the sum of its messages, each counted once", effecting()},
}

// Statement is the promise as a sentence; empty for an unknown name.
func (id InvariantID) Statement() string {
	for _, inv := range invariants {
		if inv.ID == id {
			return inv.Statement
		}
	}
	return ""
}

func (id InvariantID) known() bool { return id.Statement() != "" }

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

// Invariant is one promise: its name, and the sentence that a failure prints.
type Invariant struct {
	ID        InvariantID
	Statement string
}

// Invariants returns the table, one row a promise.
func Invariants() []Invariant { return slices.Clone(invariants) }

var invariants = []Invariant{
	{ExclusiveClaim, "at most one claim of a message is live at any instant"},
	{NoEarlySteal, "a claim is not taken over before its lease ends"},
	{TakeoverAfterExpiry, "a claim whose lease is over can be taken over: at that instant, and not later"},
	{AttemptsCountClaims, "attempts is 1 at the first claim and one more at each takeover"},
	{DoneStaysDone, "a message that is DONE is not claimed again"},
	{StaleClaimRefused, "a claim that was taken over cannot change the record any more"},
	{StaleClaimRefusedAfterForgetting, "a claim from before its message was forgotten cannot change the new record"},
	{PruneOnlyOldDone, "prune removes DONE records older than the cut-off, and nothing else"},
	{RememberedInWindow, "DONE is remembered for the whole dedup window, counted from completion"},
	{ForgottenAfterWindow, "prune forgets every DONE record older than the cut-off"},
	{KeysIndependent, "two different keys never influence each other"},
	{SurvivesRestart, "what was acknowledged is still true after a restart"},
	{TypedAnswers, "a healthy store answers, and answers the truth: no unexplained error, no false DONE, no false claim"},
	{EveryCallReturns, "every call returns within its bound"},
	{AtMostOneEffect, "a message's effect is applied at most once within its dedup window"},
	{NoLostEffect, "a message that is DONE has had its effect"},
	{BalanceKept, "an account's balance is the sum of its messages, each counted once"},
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

// Package checker judges a history against the contract in its head: whether some order and some resolution of
// the unknown outcomes explains every answer, whether each effect was counted once, and, if not, which promise was
// broken and by which operations.
//
// It reads histories and nothing else, so that one written by a program in any language can be judged. There are
// no false alarms by construction: a violation is reported only if no explanation exists. There may be misses:
// what a history does not show cannot be judged, and the counts say how much it showed.
package checker

import (
	"math"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Verdict of a judgement. Only Pass is a pass: neither "the checker gave up" nor "too little happened" is one.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Violated     Verdict = "violated"
	Undecided    Verdict = "undecided"    // a limit was reached
	Inconclusive Verdict = "inconclusive" // too little happened
)

// Schema is the version of Report's JSON form.
const Schema = 1

// Report is what is known after judging one history or a whole run. Its JSON form is what the gate reads.
type Report struct {
	Schema int    `json:"schema"`
	Store  string `json:"store"`
	// Test is the name of the test that ran, where one did.
	Test     string  `json:"test,omitempty"`
	Scenario string  `json:"scenario,omitempty"`
	Verdict  Verdict `json:"verdict"`
	// Limit says, for an undecided or inconclusive verdict, which limit it was and how to raise it.
	Limit   string   `json:"limit,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`

	Counts  Counts  `json:"counts"`
	Effects Effects `json:"effects"`
	Bounds  []Bound `json:"bounds,omitempty"`
	// Named lists the plans by name that passed: what a team would write by hand first.
	Named []string `json:"named,omitempty"`
	// Reached counts, by mark, the plans that came there; Missed lists required marks that none reached.
	Reached map[string]int `json:"reached,omitempty"`
	Missed  []string       `json:"missed,omitempty"`
	// Coverage says where faults met the store; nil where none could.
	Coverage *Coverage `json:"coverage,omitempty"`
	// NotPromised lists the invariants that the store has no capability for, or a waiver, and why.
	NotPromised []Cell `json:"not_promised,omitempty"`
	// Waivers are those of the contract; each is among NotPromised too.
	Waivers      []Waiver `json:"waivers,omitempty"`
	Facts        []string `json:"facts,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Missing      []string `json:"missing,omitempty"`

	Seed uint64 `json:"seed"`
	// Plan and History are texts: of the failing case, if there is one.
	Plan    string `json:"plan,omitempty"`
	History string `json:"history,omitempty"`
	// Replay is what running the plan again showed: "5 of 5", where the verdict can depend on the server.
	Replay string   `json:"replay,omitempty"`
	Files  []string `json:"files,omitempty"`
}

// Reason is one broken promise: what, on which key, shown by which operations.
type Reason struct {
	Invariant model.InvariantID `json:"invariant"`
	Statement string            `json:"statement"`
	// Consumer and MessageID are the key, escaped as in the history, without the quotes: a key need not be UTF-8, nor
	// fit for a terminal. Both are empty for a count, which concerns no single key.
	Consumer  string `json:"consumer"`
	MessageID string `json:"message_id"`
	// Sentence says what is wrong in this history, Wrong says it in a few words, for the arrow at the guilty operation.
	Sentence string `json:"sentence"`
	Wrong    string `json:"wrong"`
	// Guilty is the operation that cannot be explained, Operations those that matter, in order.
	Guilty     int   `json:"guilty"`
	Operations []int `json:"operations"`
}

// Cell is one invariant that is not promised, and why.
type Cell struct {
	Invariant model.InvariantID `json:"invariant"`
	Why       string            `json:"why"`
	// Broken of Of cases went wrong, where it is measured although nobody promised it.
	Broken int `json:"broken,omitempty"`
	Of     int `json:"of,omitempty"`
}

// Waiver is a promise that the contract says is not kept, so that a gate can allow it by name, or not.
type Waiver struct {
	Invariant model.InvariantID `json:"invariant"`
	Reason    string            `json:"reason"`
	Until     time.Time         `json:"until,omitzero"`
}

// WaiversOf are the waivers of a contract, as a report lists them.
func WaiversOf(c model.Contract) []Waiver {
	var all []Waiver
	for _, w := range c.Waivers {
		all = append(all, Waiver{Invariant: w.Invariant, Reason: w.Reason, Until: w.Until})
	}
	return all
}

// Counts is how much happened.
type Counts struct {
	Plans      int `json:"plans"`
	Distinct   int `json:"distinct_plans"`
	Operations int `json:"operations"`
	Keys       int `json:"keys"`
	Claims     int `json:"claims"`
	Takeovers  int `json:"takeovers"`
	Stale      int `json:"stale_calls"`
	Unknown    int `json:"unknown_outcomes"`
	Unseen     int `json:"unseen_replies"`
	Faults     int `json:"faults"`
	Porcupine  int `json:"keys_by_porcupine"`
	// Overlaps counts the pairs of calls on one key that were really open at once.
	Overlaps int `json:"overlapped_pairs"`
	// ByKey counts completions by key by another than the owner, ByKeyAccepted those that were accepted.
	ByKey         int `json:"completions_by_key_of_others"`
	ByKeyAccepted int `json:"completions_by_key_of_others_accepted"`
}

// Add sums two counts.
func (c *Counts) Add(d Counts) {
	c.Plans += d.Plans
	c.Distinct += d.Distinct
	c.Operations += d.Operations
	c.Keys += d.Keys
	c.Claims += d.Claims
	c.Takeovers += d.Takeovers
	c.Stale += d.Stale
	c.Unknown += d.Unknown
	c.Unseen += d.Unseen
	c.Faults += d.Faults
	c.Porcupine += d.Porcupine
	c.Overlaps += d.Overlaps
	c.ByKey += d.ByKey
	c.ByKeyAccepted += d.ByKeyAccepted
}

// Effects counts, per message that asked for an effect, how often it was found.
type Effects struct {
	None int `json:"none"`
	Once int `json:"once"`
	More int `json:"more"`
	// Amount is the sum of all effects found, Expected what it would be with each message counted once.
	Amount   int64 `json:"amount"`
	Expected int64 `json:"expected"`
}

// Add sums two counts of effects.
func (e *Effects) Add(f Effects) {
	e.None += f.None
	e.Once += f.Once
	e.More += f.More
	e.Amount += f.Amount
	e.Expected += f.Expected
}

// Bound is a number with its uncertainty: with no violation in n distinct plans that could have shown one, the rate
// of such plans, drawn like these, lies below Below at 95 % confidence.
type Bound struct {
	What  string  `json:"what"`
	Plans int     `json:"plans"`
	Below float64 `json:"below"`
}

// BoundOf computes the bound for none in n: the rate at which seeing none has a chance of 5 %.
func BoundOf(what string, n int) Bound {
	return Bound{What: what, Plans: n, Below: 1 - math.Pow(0.05, 1/float64(n))}
}

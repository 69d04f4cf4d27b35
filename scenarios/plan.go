package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Plan is one case, drawn whole before anything runs: who does what, when the clocks move, who crashes, which
// reply is lost. It prints and parses; the text is what a failure hands out, and what replays it.
type Plan struct {
	// Tier is how the plan runs.
	Tier Tier
	// Zones are the workers' time zones in seconds east of UTC, one a worker. An instant means the same in each.
	Zones []int
	Keys  []model.Key
	Steps []Step
}

// Tier is how a plan runs: one operation at a time, or with real concurrency.
type Tier string

// The tiers.
const (
	// ByName are the plans that every run begins with, each of one of the following tiers.
	ByName  Tier = "by-name"
	Stepped Tier = "stepped" // one operation at a time: exact, and the same every time
	Real    Tier = "real"    // workers run at once; the steps between two that move the time are one round
)

// Verb of a step: an operation's kind, or one of the following.
type Verb = model.Kind

// The verbs that are not calls.
const (
	ClockStep Verb = "clock" // the plan's time moves, for everyone
	SkewStep  Verb = "skew"  // one worker's clock runs ahead or behind
	CrashStep Verb = "crash" // one worker is gone with its handle, and comes back with a new one
)

// Fault of a call: what is broken about it, and for whom.
type Fault string

// The faults. All but Unseen happen on the wire, at one request of the call.
const (
	Seen      Fault = ""           // none: the worker gets its answer
	Unseen    Fault = "unseen"     // the answer is lost in process: recorded as it is, the worker does not learn it
	ReplyLost Fault = "reply-lost" // the server did it, the client gets the end of its connection

	RequestLost   Fault = "request-lost" // the server gets nothing of it
	HalfRequest   Fault = "half-request" // the server gets a part that it cannot act on
	HalfReply     Fault = "half-reply"   // the server did it, the client gets a part of the answer that says nothing
	ConnectionCut Fault = "cut"          // the server got it, and the connection ends at once: it may do it or not
)

// wireFaults are the faults that happen on the wire.
func wireFaults() []Fault {
	return []Fault{ReplyLost, RequestLost, HalfRequest, HalfReply, ConnectionCut}
}

// onTheWire reports whether the fault takes a wire to happen.
func (f Fault) onTheWire() bool { return f != Seen && f != Unseen }

// Bytes names a result worth keeping: some stores take one of them for another.
type Bytes string

// The results.
const (
	NilBytes     Bytes = ""
	EmptyBytes   Bytes = "empty"
	ZeroBytes    Bytes = "zero"
	NullBytes    Bytes = "null"
	InvalidBytes Bytes = "invalid" // no UTF-8, and a NUL
	ManyBytes    Bytes = "many"    // a little more than 64 KiB
)

// bytes is the result itself.
func (b Bytes) bytes() []byte {
	switch b {
	case NilBytes:
		return nil
	case EmptyBytes:
		return []byte{}
	case ZeroBytes:
		return []byte("0")
	case NullBytes:
		return []byte("null")
	case InvalidBytes:
		return []byte("\xff\x00\xfe")
	case ManyBytes:
		return []byte(strings.Repeat("many\n", manyBytes/len("many\n")))
	}
	panic("scenarios: no such result: " + string(b))
}

const manyBytes = 64<<10 + 4 // a little more than 64 KiB, which some columns end at

// Which claim a fenced call presents, of those that were learned for the key.
type Which string

// The claims.
const (
	Latest   Which = ""         // the worker's latest
	Previous Which = "previous" // the one before: the worker itself took over from itself
	First    Which = "first"    // the worker's very first on this key
	Handed   Which = "handed"   // the latest that anybody learned: a claim is good whoever presents it
	NoClaim  Which = "none"     // the zero record, by a worker that never learned of its claim
)

// Step is one step of a plan. What a verb does not use is zero.
type Step struct {
	Worker int // from 1; 0 for the clock
	Verb   Verb
	Key    int // from 1; 0: none
	Lease  time.Duration
	// By is how far the clock moves, how far a worker's clock is off, how far Prune's cut-off or the instant at which
	// a released message is visible lies from now.
	By time.Duration
	// Batch joins deliveries that stand one after the other into one call, if they carry the same number, from 1.
	Batch int
	// Delivery counts the deliveries of a message; a run fills it in.
	Delivery int
	Nonce    int // from 1, of BeginAs: equal numbers are equal nonces; 0: none
	Claim    Which
	Effect   int64 // the amount that CommitEffect writes
	Result   Bytes // what CompleteResult keeps
	Fault    Fault
	// Request is which of the call's requests a fault on the wire meets, from 1.
	Request int
	// Cancelled: the call's context has ended before it begins.
	Cancelled bool
}

// calls reports whether the step is a call of the store.
func (s *Step) calls() bool {
	switch s.Verb {
	case ClockStep, SkewStep, CrashStep:
		return false
	}
	return true
}

// together is how many steps from this one on are one call.
func (p *Plan) together(at int) int {
	s, n := &p.Steps[at], 1
	for s.Batch > 0 && at+n < len(p.Steps) {
		if next := &p.Steps[at+n]; next.Batch != s.Batch || next.Worker != s.Worker || next.Verb != model.Deliver {
			break
		}
		n++
	}
	return n
}

// numbered counts the deliveries of each message.
func (p *Plan) numbered() *Plan {
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Verb == model.Deliver }) {
		return p
	}
	q, of := with(p, slices.Clone(p.Steps)), make([]int, len(p.Keys)+1)
	for i := range q.Steps {
		if s := &q.Steps[i]; s.Verb == model.Deliver {
			of[s.Key]++
			s.Delivery = of[s.Key]
		}
	}
	return q
}

package chaos

import (
	"fmt"
	"time"
)

// Extent is how much of a request was passed to the server.
type Extent int

const (
	NotAtAll Extent = iota
	Partly          // a beginning that executes nothing, or, of a request that still comes, what came so far
	Wholly
)

// String is the extent in a word.
func (e Extent) String() string { return [...]string{"not at all", "partly", "wholly"}[e] }

// State is what the gate knows of the request at which a fault is aimed.
type State struct {
	Kind Kind
	// Reached says that the request came. One that was not reached before Disarm was never touched.
	Reached bool
	// Request says what it was, in a word and without arguments: "set", "evalsha and 2 more", "query: COMMIT",
	// "execute: INSERT". Answer says, once ReplySeen, what the server answered, where that is more than data: a
	// Postgres command tag ("COMMIT"), or "error" with its code.
	Request, Answer string
	// Connection is the proxy's number of the connection, from 1, and Backend what a Postgres server calls the
	// process behind it, as the wire told; zero elsewhere.
	Connection int
	Backend    uint32
	// Protocol is how the request was recognised. Under QuietTime the gate knows when the server begins to answer,
	// not when it has, and not what half a request does.
	Protocol Protocol

	// Forwarded is how much of it the server was given, and ForwardedAt is noted before the first byte was.
	Forwarded   Extent
	ForwardedAt time.Time
	// Fired says that the fault did what it is for, from FiredAt on, whatever Disarm comes after.
	Fired   bool
	FiredAt time.Time
	// ReplySeen is when the reply to all of it had come whole (under QuietTime, when it began). What the server did
	// for it, it had done before. Zero: not yet.
	ReplySeen time.Time
	// Ended is when the server ended the connection. After it nothing of the request can take effect any more: it
	// has, or it never will. Zero: not yet.
	Ended time.Time
}

// Outcome is what is known of whether a request was executed.
type Outcome int

const (
	// Unknown: it may have been executed, or may still be.
	Unknown Outcome = iota
	// Untouched: the fault met no request. The gate knows nothing of the call.
	Untouched
	// NotExecuted: the server never got it whole, and will not.
	NotExecuted
	// Executed: the server had executed it before ReplySeen. Answer may tell that what it did was to refuse.
	Executed
	// Closed: it was executed before Ended, or never will be.
	Closed
)

// String is the outcome in a word or two.
func (o Outcome) String() string {
	return [...]string{"unknown", "untouched", "not executed", "executed", "closed"}[o]
}

// Outcome says what the state comes to.
func (s State) Outcome() Outcome {
	exact := s.Protocol != QuietTime
	switch {
	case !s.Reached:
		return Untouched
	case s.Fired && (s.Forwarded == NotAtAll || exact && s.Forwarded == Partly && s.Kind == HalfRequest):
		return NotExecuted
	case exact && !s.ReplySeen.IsZero():
		return Executed
	case !s.Ended.IsZero():
		return Closed
	}
	return Unknown
}

// String is what a report says of it.
func (s State) String() string {
	if !s.Reached {
		return "no request came"
	}
	text := fmt.Sprintf("%s on connection %d, passed on %v", s.Request, s.Connection, s.Forwarded)
	switch {
	case !s.ReplySeen.IsZero() && s.Answer != "":
		text += ", the server had answered " + s.Answer
	case !s.ReplySeen.IsZero():
		text += ", the server had answered"
	case !s.Ended.IsZero():
		text += ", the server ended the connection without an answer"
	}
	return text
}

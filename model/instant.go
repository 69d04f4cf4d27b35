package model

import (
	"math"
	"time"
)

// Instant is a point in time in nanoseconds since 1970 (UTC). Histories keep instants rather than time.Time so
// that two equal instants are equal by ==, whatever location a store answered in. What lies outside the years
// 1678 to 2261 is clamped to their edge: no plan goes there, and a store that answers so is wrong either way.
type Instant int64

// NoInstant stands for the zero time.Time: not told. The first moment of 1970 reads the same, which some stores
// write for "cleared".
const NoInstant Instant = 0

const (
	firstInstant Instant = math.MinInt64
	lastInstant  Instant = math.MaxInt64
)

// InstantOf converts a time.Time.
func InstantOf(t time.Time) Instant {
	switch {
	case t.IsZero():
		return NoInstant
	case t.Before(time.Unix(0, int64(firstInstant))):
		return firstInstant
	case t.After(time.Unix(0, int64(lastInstant))):
		return lastInstant
	}
	return Instant(t.UnixNano())
}

// Time is the instant as a time.Time in UTC; NoInstant is the zero time.Time.
func (i Instant) Time() time.Time {
	if i == NoInstant {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// Add moves an instant and stops at the edges. NoInstant stays.
func (i Instant) Add(d time.Duration) Instant {
	if i == NoInstant {
		return i
	}
	sum := i + Instant(d)
	switch {
	case d > 0 && sum < i:
		return lastInstant
	case d < 0 && sum > i:
		return firstInstant
	}
	return sum
}

// Sub is the distance i-j, stopped at the edges of a time.Duration.
func (i Instant) Sub(j Instant) time.Duration {
	d := i - j
	switch {
	case i > j && d < 0:
		return math.MaxInt64
	case i < j && d > 0:
		return math.MinInt64
	}
	return time.Duration(d)
}

// span is an interval of instants, both ends included. Under the caller's clock it is one instant; under the
// server's clock the kit knows only between which two instants a thing happened.
type span struct{ from, to Instant }

func at(i Instant) span { return span{i, i} }

func (s span) add(d time.Duration) span { return span{s.from.Add(d), s.to.Add(d)} }

// anytime is when nothing says when.
var anytime = span{firstInstant, lastInstant}

// hull is the smallest span that holds both.
func (s span) hull(t span) span { return span{min(s.from, t.from), max(s.to, t.to)} }

// widen moves both ends outwards.
func (s span) widen(d time.Duration) span { return span{s.from.Add(-d), s.to.Add(d)} }

// answer is a comparison that precision or an unknown clock may leave open.
type answer int

const (
	no answer = iota
	either
	yes
)

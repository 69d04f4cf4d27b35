package model

import "slices"

// Possible is the set of states that a record may be in while outcomes are unknown. Empty: nothing explains what
// happened.
type Possible []KeyState

// Fresh is a key that nobody touched.
func Fresh() Possible { return Possible{{}} }

// Next returns the states that remain after an operation. The receiver is not changed.
func (p Possible) Next(r *Rules, e *Event) Possible {
	return p.NextInto(nil, r, e)
}

// NextInto is Next into a buffer, which must not be the receiver's own.
func (p Possible) NextInto(buffer Possible, r *Rules, e *Event) Possible {
	buffer = buffer[:0]
	for i := range p {
		buffer = r.Step(buffer, p[i], e)
	}
	return buffer.distinct()
}

// distinct drops repeated states, in place.
func (p Possible) distinct() Possible {
	if len(p) < 2 {
		return p
	}
	kept := p[:1]
	for _, s := range p[1:] {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// Equal reports whether two sets hold the same states.
func (p Possible) Equal(q Possible) bool {
	if len(p) != len(q) {
		return false
	}
	for _, s := range p {
		if !slices.Contains(q, s) {
			return false
		}
	}
	return true
}

// AnyAbsent reports whether the record may be absent.
func (p Possible) AnyAbsent() bool {
	return slices.ContainsFunc(p, func(s KeyState) bool { return s.State == Absent })
}

// AllAbsent reports whether the record is absent for sure.
func (p Possible) AllAbsent() bool {
	return !slices.ContainsFunc(p, func(s KeyState) bool { return s.State != Absent })
}

// Remain reports whether the record is there for sure, and only a call can take it away: the time alone cannot have
// made it vanish.
func (p Possible) Remain(r *Rules, e *Event) bool {
	return !slices.ContainsFunc(p, func(s KeyState) bool { return s.State == Absent || r.elapsed(s, e, r.now(e)) != no })
}

// NextOptional is Next for the further times that one Prune may meet a record.
func (p Possible) NextOptional(r *Rules, e *Event) Possible {
	var next Possible
	for _, s := range p {
		next = r.StepOptional(next, s, e)
	}
	return next.distinct()
}

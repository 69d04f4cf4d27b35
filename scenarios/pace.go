package scenarios

import "time"

// How fast plans go where the server's clock decides.

// pace is a short while: a second, or where somebody has to wait for it, a few times what the clocks may differ by.
func (s surface) pace() time.Duration {
	if !s.waits {
		return time.Second
	}
	return max(3*s.contract.ClockError, s.contract.MinLease)
}

// clear is how far from an edge it is certain on which side of it one is.
func (s surface) clear() time.Duration {
	if !s.server {
		return 0
	}
	return s.contract.ClockError + s.contract.Precision + slackOfCalls
}

// slackOfCalls is what calls take until they are answered, on a machine that has other things to do.
const slackOfCalls = 30 * time.Millisecond

// waitsAtMost bounds the real time that one plan waits.
func (s surface) waitsAtMost() time.Duration { return 8 * s.pace() }

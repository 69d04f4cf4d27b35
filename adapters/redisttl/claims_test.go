package redisttl

import (
	"strconv"
	"testing"
	"time"
)

func newClaims() *claims { return &claims{held: make(map[string]held)} }

// Two claims of one key through one handle: the reply to the earlier one may come last.
func TestTheLaterClaimIsRememberedWhicheverReplyComesLast(t *testing.T) {
	c := newClaims()
	c.remember("k", "second", epoch.Add(time.Minute), time.Second)
	c.remember("k", "first", epoch, time.Second)
	if got := c.token("k"); got != "second" {
		t.Errorf("remembered is %q", got)
	}
	c.forget("k", "first")
	if got := c.token("k"); got != "second" {
		t.Errorf("after another was forgotten: %q", got)
	}
	c.forget("k", "second")
	if got := c.token("k"); got != "" {
		t.Errorf("after it was forgotten: %q", got)
	}
}

// A worker that never completes claims without end: what is long over is dropped, what may be live is kept.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	c := newClaims()
	c.remember("extended", "t", epoch, time.Second)
	c.prolong("extended", "other", epoch, 10000*time.Hour)
	c.prolong("extended", "t", epoch, 1000*time.Hour)
	c.remember("long", "t", epoch, 1000*time.Hour)
	for i := range 20 * sweepAtLeast {
		c.remember(strconv.Itoa(i), "t", epoch.Add(time.Duration(i)*time.Minute), time.Second)
	}
	if n := len(c.held); n > 2*sweepAtLeast {
		t.Errorf("%d claims are remembered, of which some 60 can be live", n)
	}
	for _, key := range []string{"long", "extended", strconv.Itoa(20*sweepAtLeast - 1)} {
		if c.token(key) == "" {
			t.Errorf("the claim %s is forgotten", key)
		}
	}
}

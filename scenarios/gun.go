package scenarios

import (
	"runtime"
	"sync/atomic"
	"time"
)

// gun is the starting gun of a round: the workers' first calls of the round begin together, and not as far apart as
// handing out their lines takes. In a process a call is over sooner than that. It is a help and no promise: whoever is
// not there in time is not waited for.
type gun struct{ missing atomic.Int64 }

func newGun(workers int) *gun {
	g := &gun{}
	g.missing.Store(int64(workers))
	return g
}

// waitAtMost bounds the wait for the others: far longer than handing out a line takes, far shorter than a call over a
// wire.
const waitAtMost = 200 * time.Microsecond

// wait is called right before the call.
func (g *gun) wait() {
	if g == nil || g.missing.Add(-1) <= 0 {
		return
	}
	for begun := time.Now(); g.missing.Load() > 0 && time.Since(begun) < waitAtMost; {
		runtime.Gosched() // the others may need this processor to arrive
	}
}

// leave is called by a worker that has no call to make after all.
func (g *gun) leave() {
	if g != nil {
		g.missing.Add(-1)
	}
}

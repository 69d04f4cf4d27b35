package scenarios

import (
	"fmt"
	"sync/atomic"
)

// namespaces hands out names that no other run on the same server uses: they carry the run's own random part.
type namespaces struct {
	run  uint64
	last atomic.Int64
	// advanced is by how many ns the server's clock was moved: all namespaces have that one clock, and so have all lanes
	// that come one after the other.
	advanced atomic.Int64
}

func (n *namespaces) next() string { return fmt.Sprintf("eo_%x_%d", n.run, n.last.Add(1)) }

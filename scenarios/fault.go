package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

// lostReply is the one fault of this version on the wire. A nil *lostReply is no fault.
type lostReply struct{ loss *chaos.Loss }

// endAtMost bounds the wait for the server to end a connection whose client is gone.
const endAtMost = 5 * time.Second

// arm prepares the fault that a step asks for, on the worker's own proxy.
func (x *execution) arm(s *Step) (*lostReply, error) {
	if s.Fault != ReplyLost || x.lane.h.Upstream == "" {
		return nil, nil
	}
	loss, err := x.lane.proxies[s.Worker-1].LoseReply(max(s.Request, 1))
	if err != nil {
		return nil, fmt.Errorf("scenarios: %s: %w", x.lane.h.Name, err)
	}
	return &lostReply{loss}, nil
}

// settle takes the fault back and says whether it bit, and whether the server has ended that connection, after
// which nothing that was sent over it can take effect any more.
func (f *lostReply) settle(ctx context.Context) (bitten, closed bool) {
	if f == nil || !f.loss.Disarm().Fired {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, endAtMost)
	defer cancel()
	select {
	case <-f.loss.Over():
		return true, true
	case <-ctx.Done():
		return true, false
	}
}

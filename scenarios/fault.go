package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/effectonce/effectonce/chaos"
)

// wireFault is one fault at one request of one call. A nil *wireFault is no fault.
type wireFault struct {
	armed  *chaos.Armed
	proxy  *chaos.Proxy
	before int // requests that the worker had made
}

// aftermath is what the wire knows of a call with a fault.
type aftermath struct {
	bitten bool
	name   string // of the fault, as histories have it
	detail string // what the wire saw of it
	quiet  bool   // the wire does not know the protocol
	// closed: nothing of the call can take effect any more. untouched: nothing of it ever did.
	closed, untouched bool
}

// endAtMost bounds the wait for the server to end a connection whose client is gone.
const endAtMost = 5 * time.Second

// kind is what the fault is called on the wire.
func (f Fault) kind() chaos.Kind {
	switch f {
	case RequestLost:
		return chaos.RequestLost
	case HalfRequest:
		return chaos.HalfRequest
	case HalfReply:
		return chaos.HalfReply
	case ConnectionCut:
		return chaos.ConnectionCut
	case ReplyLost:
		return chaos.ReplyLost
	}
	panic("scenarios: no fault on the wire: " + string(f))
}

// arm prepares the fault that a step asks for, on the worker's own proxy.
func (x *execution) arm(s *Step) (*wireFault, error) {
	if !s.Fault.onTheWire() || x.lane.h.Upstream == "" {
		return nil, nil
	}
	p := x.lane.proxies[s.Worker-1]
	before := p.Requests()
	armed, err := p.Arm(chaos.Fault{Kind: s.Fault.kind(), Request: max(s.Request, 1)})
	if err != nil {
		return nil, fmt.Errorf("scenarios: %s: %w", x.lane.h.Name, err)
	}
	return &wireFault{armed, p, before}, nil
}

// settle takes the fault back and says what came of it, once the server has ended that connection: until then a
// transaction that was left open holds its locks.
func (f *wireFault) settle(ctx context.Context) aftermath {
	if f == nil {
		return aftermath{}
	}
	state := f.armed.Disarm()
	if !state.Fired {
		return aftermath{}
	}
	ctx, cancel := context.WithTimeout(ctx, endAtMost)
	defer cancel()
	select {
	case <-f.armed.Over():
		state = f.armed.State()
	case <-ctx.Done():
	}
	after := aftermath{bitten: true, name: state.Kind.String(), detail: state.String(), quiet: state.Protocol == chaos.QuietTime}
	if outcome := state.Outcome(); outcome == chaos.NotExecuted || outcome == chaos.Executed || outcome == chaos.Closed {
		after.closed = f.proxy.Unanswered() == 0
		// Of several requests those before may stand, or those after it that a driver made instead.
		after.untouched = after.closed && outcome == chaos.NotExecuted && f.proxy.Requests()-f.before == 1
	}
	return after
}

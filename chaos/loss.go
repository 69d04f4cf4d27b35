package chaos

import "time"

// Loss is one reply that is to be lost: an [Armed] fault of kind [ReplyLost] by its older name.
type Loss struct{ armed *Armed }

// Lost is what became of a Loss; see [State].
type Lost struct {
	Reached   bool
	Forwarded time.Time
	Fired     bool
	ReplySeen time.Time
	Ended     time.Time
}

// LoseReply arms one fault: the reply to the k-th request from now on is lost. See [Proxy.Arm].
func (p *Proxy) LoseReply(k int) (*Loss, error) {
	a, err := p.Arm(Fault{Kind: ReplyLost, Request: k})
	if err != nil {
		return nil, err
	}
	return &Loss{a}, nil
}

// Disarm takes the fault back, if it is not too late, and says what it did.
func (l *Loss) Disarm() Lost { return l.armed.Disarm().lost() }

// State says what became of the fault so far.
func (l *Loss) State() Lost { return l.armed.State().lost() }

// Over is closed when the connection of the request has ended on the server's side.
func (l *Loss) Over() <-chan struct{} { return l.armed.Over() }

func (s State) lost() Lost {
	return Lost{Reached: s.Reached, Forwarded: s.ForwardedAt, Fired: s.Fired, ReplySeen: s.ReplySeen, Ended: s.Ended}
}

package chaos

import (
	"slices"
	"time"
)

// heard takes what the server said and answers what of it is to be passed on now, and whether that is the last.
func (w *wire) heard(b []byte, at time.Time) (out []byte, over bool) {
	w.proxy.mu.Lock()
	defer w.proxy.mu.Unlock()
	if w.framer == nil {
		w.speak(QuietTime, nil)
	}
	ends := w.listen(b)
	if !w.counted && !w.over {
		return b, false // a handshake, a word unasked, or the rest of a reply under QuietTime
	}
	whole := w.counted && w.framer.idle()
	a := w.fault
	if whole {
		w.counted = false
		if a != nil && a.state.Forwarded == Wholly {
			a.state.ReplySeen, a.state.Answer = at, w.framer.answer()
		}
	}
	switch {
	case w.over:
		return nil, false // its end is on the way
	case a == nil || a.taken && !a.state.Fired, !a.state.Kind.ofReply():
		if whole && a != nil && !a.state.Fired {
			w.release()
		}
		return b, false
	case !a.state.Fired && !whole && w.framer.invites():
		return b, false // a client that waits for it would wait for ever
	case a.state.Kind == ReplyLost:
		a.fired(at)
		return nil, whole
	}
	a.fired(at)
	return w.half(b, ends, whole)
}

// listen reads what the server said and answers where in it messages end.
func (w *wire) listen(b []byte) (ends []int) {
	for at := 0; at < len(b); {
		n, end, err := w.framer.heard(b[at:])
		if err != nil {
			w.speak(QuietTime, err)
			_, _, _ = w.framer.heard(b[at:])
			return ends
		}
		at += n
		if end {
			ends = append(ends, at)
		}
	}
	return ends
}

// half keeps the reply until it is whole, or as much as there is room for, and answers then the half of it that the
// client gets: it ends in the middle of a message.
func (w *wire) half(b []byte, ends []int, whole bool) (out []byte, over bool) {
	if w.withheld {
		return nil, whole
	}
	for _, end := range ends {
		w.ends = append(w.ends, len(w.reply)+end)
	}
	w.reply = append(w.reply, b...)
	if !whole && len(w.reply) < maxReply {
		return nil, false
	}
	w.withheld = true
	cut := max(1, len(w.reply)/2)
	if slices.Contains(w.ends, cut) {
		cut-- // no message is a byte long
	}
	out, w.reply, w.ends = w.reply[:cut], nil, nil
	return out, whole
}

// release lets go of a fault that did nothing and whose request has been answered. The proxy's mu is held.
func (w *wire) release() {
	if w.proxy.armed == w.fault {
		w.proxy.armed = nil
	}
	w.fault = nil
}

// requestsOver tells the server, and only now, that its client is gone. It goes on executing what it was given,
// and what it answers is still read. If it was the gate that ended the client's say, the client's side ends too.
func (w *wire) requestsOver() {
	defer w.proxy.running.Done()
	_ = w.upstream.CloseWrite() // fails if the server has gone first, and then it knows
	w.proxy.mu.Lock()
	defer w.proxy.mu.Unlock()
	if w.over {
		close(w.end)
	}
}

// repliesOver ends the client's side, when everything that it may see has been written: after the server ended
// its own, or before, if a fault ended the connection.
func (w *wire) repliesOver() {
	defer w.proxy.running.Done()
	_ = w.client.Close()
}

// ended notes that the server has ended its side: nothing more can come of this connection.
func (w *wire) ended() {
	p := w.proxy
	defer p.running.Done()
	_ = w.upstream.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wires, w)
	a := w.fault
	if a == nil || !a.state.Ended.IsZero() {
		return
	}
	a.state.Ended = time.Now()
	close(a.over)
	if p.armed == a {
		p.armed = nil
	}
}

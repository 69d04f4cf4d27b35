package redis

import (
	"context"
	"net"
	"time"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// deferred hands a failed dial over as a connection on which the first word fails. The driver counts failed dials and
// from then on refuses without trying, while a goroutine probes once a second for as long as the pool is open: a
// worker would see its server back up to a second late, and one that was abandoned in a crash would probe for ever.
func deferred(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return unreached{&dialError{err}}, nil
		}
		return conn, nil
	}
}

// dialError proves that nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

type unreached struct{ err *dialError }

func (c unreached) Read([]byte) (int, error)         { return 0, c.err }
func (c unreached) Write([]byte) (int, error)        { return 0, c.err }
func (c unreached) Close() error                     { return nil }
func (c unreached) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c unreached) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c unreached) SetDeadline(time.Time) error      { return nil }
func (c unreached) SetReadDeadline(time.Time) error  { return nil }
func (c unreached) SetWriteDeadline(time.Time) error { return nil }

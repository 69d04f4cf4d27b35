//go:build unix

package postgres

import (
	"errors"
	"net"
	"syscall"
)

// hungUp tells, without waiting and without taking a byte, whether the server has ended an idle connection: the
// stream is at its end, broken, or holds the server's last word. It cannot see a peer that vanished silently.
//
// It goes by Control, not Read: pgconn leaves a reader of its own behind after a slow write, which holds the
// connection's read lock for as long as the server has nothing to say.
func hungUp(conn net.Conn) bool {
	plain := true
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn, plain = over.NetConn(), false
	}
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return true
	}
	var first [1]byte
	var n int
	var peekErr error
	err = raw.Control(func(fd uintptr) {
		n, _, peekErr = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return true
	case errors.Is(peekErr, syscall.EAGAIN), errors.Is(peekErr, syscall.EINTR):
		return false
	case peekErr != nil || n == 0:
		return true
	default:
		return plain && first[0] == 'E' // an ErrorResponse that no call asked for is a farewell
	}
}

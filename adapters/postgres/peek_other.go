//go:build !unix

package postgres

import "net"

// hungUp cannot look without reading here; a dead connection shows at its next call.
func hungUp(net.Conn) bool { return false }

package h2

import (
	"context"
	"net"

	"github.com/tarehq/tare/internal/connection"
)

// Carrier carries the frames of a session over a connection. Any goroutine may call its methods,
// except while it holds the session's mutex.
type Carrier interface {
	// Connection returns the connection beneath.
	Connection() Connection
	// Send writes all of p, unless the carrier is a RoomWaiter.
	Send(p []byte) (int, error)
	// Update is called when WaitDeadline or IsIdle may have changed while nobody holds the
	// turn.
	Update()
	// End is called when the session is over and its output was sent. isClean reports that the
	// client should receive the output before the connection closes.
	End(isClean bool)
}

// RoomWaiter is a Carrier whose Send does not block: it writes what the connection accepts now, and
// returns how much that was. A session of another Carrier sends in a goroutine of its own.
type RoomWaiter interface {
	Carrier
	// AwaitRoom makes the carrier call Session.Flush when the connection accepts more.
	AwaitRoom()
}

// Connection is what a session needs to know of its connection. It does not call CountRequest: it
// counts requests itself.
type Connection interface {
	connection.Info
	// Context returns the parent of the contexts of requests.
	Context() context.Context
	// Logf writes to the server's error log.
	Logf(format string, args ...any)
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Host is the goroutine that runs a handler, if others wait for that goroutine.
type Host interface {
	// MayBlock is called before the handler waits.
	MayBlock()
}

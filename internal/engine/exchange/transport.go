package exchange

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// Transport carries an exchange: a connection, or a stream of HTTP/2.
type Transport interface {
	connection.Info
	LocalAddr() net.Addr
	// SetReadDeadline sets the deadline for reading the request.
	SetReadDeadline(t time.Time) error
	// SetWriteDeadline sets the deadline of all writes until the next call.
	SetWriteDeadline(t time.Time) error
	// MayBlock is called before a call that may block for a reason other than the connection.
	MayBlock()
	// Context returns the parent of the contexts of the connection's requests. It stays valid
	// after the connection has ended.
	Context() context.Context
	// Logf writes to the server's error log. It works after the connection has ended.
	Logf(format string, args ...any)
}

// Connection is a Transport that carries one exchange after another.
type Connection interface {
	Transport
	io.Reader
	// Send writes p. timeout limits how long the client may accept nothing; 0 is no limit.
	Send(p []byte, timeout time.Duration) error
	// SendPieces is Send for several pieces in order, with one system call where possible.
	SendPieces(pieces [][]byte, timeout time.Duration) error
	// CanSendFrom reports whether SendFrom may be called.
	CanSendFrom() bool
	// SendFrom sends what src returns, like Send. The kernel may copy it. If nothing was sent
	// because it cannot, SendFrom may return errors.ErrUnsupported.
	SendFrom(src io.Reader, timeout time.Duration) (int64, error)
	// CloseWrite ends the output.
	CloseWrite() error
	// WatchDeparture starts to watch for the client's departure, which cancels x's context. The
	// body has been read, and the caller holds its mu.
	WatchDeparture(x *Exchange)
	// StopWatch stops the watch.
	StopWatch()
	// Hijack hands the connection to a handler, as a net.Conn that the transport no longer
	// uses.
	Hijack() (net.Conn, error)
}

// Stream carries one exchange, and knows its protocol.
type Stream interface {
	Transport
	Source
	Sink
}

// Detachable is a Connection whose exchange can outlast its handler without a goroutine.
type Detachable interface {
	Connection
	Sender
	// CanDetach reports whether an exchange can now be detached.
	CanDetach() bool
}

// Sender sends what can be sent without blocking, and returns how much that was.
type Sender interface{ TrySend([]byte) int }

// Package connection declares what tare's servers, clients and handlers use of each other beyond
// net/http's types. A handler that runs on another server does without it.
package connection

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// InputReporter is a body that reports what has arrived.
type InputReporter interface {
	// HasInput reports whether a Read is known to return bytes or an error at once.
	HasInput() bool
}

// InputAwaiter is a body that can be awaited without memory for its bytes.
type InputAwaiter interface {
	// AwaitInput waits until a Read returns bytes or an error at once. It may return earlier. Only
	// the goroutine that reads may call it.
	AwaitInput()
}

// Deliverer is a body that another goroutine receives.
type Deliverer interface {
	// Deliver is AwaitInput, but meanwhile that goroutine passes what arrives to send, which then is
	// not read, until send returns false. That saves waking the caller. send must not wait, and must
	// not keep its argument. If it is nil, nothing is passed.
	Deliver(send func(p []byte) bool)
}

// TrySender is a ResponseWriter that can send without waiting.
type TrySender interface {
	// TrySender returns a function that is Write and Flush for a piece of the body, if neither would
	// wait for the client. Else that does nothing and returns false. Another goroutine may call it
	// until the next call of a method. It is nil if the ResponseWriter changes what is written.
	TrySender() func(p []byte) bool
}

// RequestBody is the body of a request that a server has received.
type RequestBody interface {
	InputReporter
	// HasWhole reports whether all of the body has arrived.
	HasWhole() bool
	// FramingLength returns the number of bytes of chunked framing that have been read. ok is false
	// while another goroutine reads the body, and once it is closed.
	FramingLength() (n int64, ok bool)
}

// SendTimer is a ResponseWriter whose server limits the time of sending.
type SendTimer interface {
	// SetSendTimeout limits how long the client may accept none of the bytes of this response, or of
	// an earlier one that still waits. 0 is no limit. It fails once the handler has returned.
	SetSendTimeout(d time.Duration) error
}

// RawSender is a ResponseWriter that sends fields as they are.
type RawSender interface {
	// HasFields reports whether the handler has set fields in the Header, besides Connection.
	HasFields() bool
	// WriteRawHeader is WriteHeader with fields that are sent before those of the Header: offsets
	// into a head that http1 has parsed. What describes the framing or the connection is decided as
	// for other responses. It detects no content type, and keeps neither argument.
	WriteRawHeader(code int, head []byte, fields []http1.Field)
}

// ResponseWriter is what the ResponseWriters of tare's servers have beyond net/http's.
type ResponseWriter interface {
	SendTimer
	RawSender
	// SetLinger limits for how long the server reads from the client if this response is the last of
	// the connection: in all, and while the client sends nothing. It reads only if the client may
	// be sending, unless always is set. It fails once the handler has returned.
	SetLinger(limit, timeout time.Duration, always bool) error
}

// HeadMeasurer is an Info of one request whose head was compressed.
type HeadMeasurer interface {
	// HeadLength returns the length of the head as it was sent.
	HeadLength() int64
}

// AboveSocket is a connection of a listener whose server serves the connection beneath instead.
type AboveSocket interface {
	net.Conn
	// Socket returns the connection beneath, or itself if that cannot be served alone. It first reads
	// what precedes the requests, and waits for it until a deadline, or until Close is called. It
	// also returns the connection's context, which is ctx or is derived from it.
	Socket(ctx context.Context, deadline time.Time) (net.Conn, context.Context, error)
}

// Info is the information of a server about a client's connection.
type Info interface {
	// Opened returns when the connection was accepted.
	Opened() time.Time
	// CountRequest counts a request, and returns the number of requests so far. Servers do not call
	// it: a handler calls it once for each request.
	CountRequest() int
	// Number returns the connection's number: the next one of a counter at the first call, and the
	// same one later. Any goroutine of a handler may call it.
	Number(counter *atomic.Int64) int64
}

// Number is what a server keeps for Info.Number. The zero value has no number yet.
type Number struct{ n atomic.Int64 }

// Of returns the number. The first call takes the next one of a counter.
func (n *Number) Of(counter *atomic.Int64) int64 {
	if number := n.n.Load(); number != 0 {
		return number
	}
	if next := counter.Add(1); n.n.CompareAndSwap(0, next) {
		return next
	}
	return n.n.Load()
}

type key struct{}

// IsKey reports whether k is the context key of Info. It is for servers whose contexts implement
// Value themselves.
func IsKey(k any) bool { _, ok := k.(key); return ok }

// With returns a context with the Info of a connection.
func With(ctx context.Context, info Info) context.Context {
	return context.WithValue(ctx, key{}, info)
}

// Of returns the Info in a request's context, or nil if there is none.
func Of(ctx context.Context) Info {
	info, _ := ctx.Value(key{}).(Info)
	return info
}

// Package connection declares what tare's servers, clients and handlers use of each other beyond
// net/http's types. A handler that runs on another server does without it.
package connection

import (
	"context"
	"net"
	"net/http"
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
	// Deliver is AwaitInput, except that the other goroutine first passes what arrives to send,
	// until send does not return Delivered. Read does not return it again. That saves waking the
	// caller. send must not wait, and must not keep its argument. If send is nil, nothing is
	// passed.
	Deliver(send func(p []byte) Delivery)
}

// Delivery is the result of sending a piece of a body.
type Delivery uint8

const (
	// Refused is a piece with which nothing was done: it cannot be sent without waiting.
	Refused Delivery = iota
	// Delivered is a piece that was sent.
	Delivered
	// Deposited is a piece of which a part waits for the client. Flush sends that, and waits.
	Deposited
)

// TrySender is a ResponseWriter that can send without waiting.
type TrySender interface {
	// TrySender returns a function that writes and flushes a piece of the body without waiting for
	// the client. Any goroutine may call it, but none while another calls it or a method. The
	// function is nil if the response cannot do so, or changes what is written.
	//
	// If begin is not nil, the response is detached: it outlasts its handler, and then holds no
	// goroutine. The server calls begin once the handler has returned, and ends the response once
	// end is called: as if the handler had returned then, or had panicked with why, unless that is
	// nil. In between, the function and the methods of the ResponseWriter may be called. If
	// TrySender returns nil, it has done nothing. Only a detached response deposits pieces.
	TrySender(begin func(end func(why any))) func(p []byte) Delivery
}

// InputLoop is an event loop that watches sockets.
type InputLoop interface {
	// WatchInput calls receive whenever a socket has input, with memory of the loop for it. hasMore
	// reports that more input may be left. The watch is over when goesOn is false, or when stop is
	// called: then the loop calls over in a goroutine of its own. WatchInput reports false, and
	// does nothing, if it cannot watch the socket. After stop, which may be called more than once,
	// receive is not running.
	WatchInput(fd int, receive func(memory []byte) (goesOn, hasMore bool), over func()) (stop func(), ok bool)
}

// LoopDeliverer is a body that an event loop can receive.
type LoopDeliverer interface {
	// CanDeliverOn reports whether a loop can receive it.
	CanDeliverOn() bool
	// DeliverOn passes what arrives to send, in the goroutine of a loop. Delivery ends, and over is
	// called, when send does not return Delivered, at the end of the body, or at an error, which
	// the next Read returns. DeliverOn reports false, and does nothing, if there is input already,
	// or if the loop cannot receive the body. send must not keep its argument. Until over is
	// called, no method but Close may be.
	DeliverOn(loop InputLoop, send func(p []byte) Delivery, over func()) bool
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
	// TakesRawHeader reports whether WriteRawHeader may be called with a status: the handler has set
	// no fields in the Header, besides Connection, and nothing else needs them there.
	TakesRawHeader(code int) bool
	// WriteRawHeader is WriteHeader with further fields, sent before those of the Header: offsets
	// into a head that http1 has parsed. What describes the framing or the connection is decided as
	// for other responses. It detects no content type, and keeps neither head nor fields. later,
	// unless it is nil, adds the fields to the Header if that is read afterwards.
	WriteRawHeader(code int, head []byte, fields []http1.Field, later HeaderAdder)
}

// HeaderAdder adds fields to a header.
type HeaderAdder interface{ AddTo(h http.Header) }

// ResponseWriter has what the ResponseWriters of tare's servers add to net/http's.
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
	// Socket returns the connection beneath, or the receiver if that cannot be served alone. It
	// first reads what precedes the requests, and waits for it until a deadline, or until Close is
	// called. It also returns the connection's context, which is ctx or is derived from it.
	Socket(ctx context.Context, deadline time.Time) (net.Conn, context.Context, error)
}

// Info holds what a server knows of a client's connection.
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

// Number stores the number of Info.Number. The zero value has no number yet.
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

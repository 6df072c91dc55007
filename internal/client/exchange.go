package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/roundtrip"
)

const (
	// endTime bounds the end of sending a request whose response has ended, and lateTime how long
	// its body is waited for, as in net/http.
	endTime  = 5 * time.Second
	lateTime = 50 * time.Millisecond
	// answerTime bounds how long a head may take from a server that takes no more.
	answerTime = time.Second
	// inlineValues is how many field values a slab has room for.
	inlineValues = 6
)

// slab is the memory of an exchange that has a fixed size. It is allocated for the request and
// left to the garbage collector, unless that is a Memory's: callers keep what they are given.
type slab struct {
	exchange
	response http.Response
	values   [inlineValues]string // what the Header's slices point into
	whole    roundtrip.WholeBody
}

// exchange is a request, the connection that it has, and the response as far as it has come.
type exchange struct {
	client  *Client
	request *http.Request
	ctx     context.Context
	trace   *httptrace.ClientTrace
	url     *url.URL        // what is asked for
	body    *roundtrip.Body // what is sent after the head; nil if nothing is
	length  int64           // of the request's body, -1 if it is not known
	key     key
	via     *other // what sends the request instead

	proxyAuth  string // what the proxy is told
	keep       bool   // the connection may be
	repeatable bool   // the request may be sent twice. Who still sends its body may ask that when the caller has it back
	inflate    bool   // we have asked for gzip
	encoded    bool   // the response is, somehow
	expects    bool   // the body waits for an interim response
	gathered   bool   // the body is in the scratch

	conn    *conn
	scratch *scratch // of whoever reads; nil once it is not needed
	from    int      // what was not looked at lies in scratch.in[from:to]
	to      int
	began   bool // something has come
	again   bool // it failed in a way in which another attempt may help
	unsent  bool // nothing was sent at all
	stale   bool // the connection was found to be closed or broken
	ended   bool // the server has ended the connection, as it should

	mu       sync.Mutex
	over     bool               // the connection was closed, given back, or left to the sender
	left     bool               // the last of these: the sender gives it back
	cause    error              // why it was closed before the response's end
	progress progress           // of sending
	failed   error              // why sending has ended early, if there is no cause
	head     roundtrip.HeadWait // for the response
	watch    roundtrip.Watch    // of the context
	hurry    *time.Timer        // begins to send a body that waits, or gives up one that is late
}

// streams reports whether a body is sent that is not in the scratch.
func (x *exchange) streams() bool { return x.body != nil && !x.gathered }

// begin watches the context, if it can end.
func (x *exchange) begin() {
	if !x.streams() {
		x.progress = sendingEnd
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watch = roundtrip.WatchContext(x.ctx, x)
}

// ContextEnded implements roundtrip.Ender.
func (x *exchange) ContextEnded() { x.abandon(roundtrip.Cause(x.ctx)) }

// abandon ends the exchange before the response does. Who reads or writes then gets the cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the exchange when the response has ended. clean is whether the connection can be
// used again as far as the response goes.
func (x *exchange) finish(clean bool) bool {
	return x.end(nil, x.keep && clean && x.conn.Value.isDry())
}

// end ends the exchange unless it has been, and reports whether the connection was kept.
func (x *exchange) end(cause error, reusable bool) bool {
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return false
	}
	x.over, x.cause = true, cause
	progress := x.progress
	reusable = reusable && x.failed == nil && progress != waiting
	left := reusable && progress != sent
	if x.left = left; left {
		_ = x.conn.SetWriteDeadline(time.Now().Add(endTime))
	}
	x.watch.Stop(x.ctx, x)
	if x.hurry != nil {
		x.hurry.Stop()
	}
	if left && progress == sending {
		x.hurry = time.AfterFunc(lateTime, func() { x.dropLeft() })
	}
	x.mu.Unlock()
	switch {
	case left:
		return true
	case reusable:
		return x.giveBack()
	}
	x.drop()
	return false
}

// giveBack gives the connection back.
func (x *exchange) giveBack() bool {
	trace := x.trace
	if trace == nil || trace.PutIdleConn == nil {
		return x.conn.Keep()
	}
	kept := x.conn.Keep()
	if kept {
		trace.PutIdleConn(nil)
	} else {
		trace.PutIdleConn(errors.New("tare: there are enough idle connections"))
	}
	return kept
}

// claim reports whether the connection was left to whoever calls it first.
func (x *exchange) claim() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := x.left
	if x.left = false; left && x.hurry != nil {
		x.hurry.Stop()
	}
	return left
}

// dropLeft closes the connection if it was left to the sender, and reports whether it was.
func (x *exchange) dropLeft() bool {
	left := x.claim()
	if left {
		x.drop()
	}
	return left
}

// drop closes the connection.
func (x *exchange) drop() {
	x.conn.Drop()
	x.body.CloseLater()
}

// gotHead ends what is bounded. A head that comes while the connection is being closed, which takes a while over TLS, is too late:
// it returns why that is closed.
func (x *exchange) gotHead() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.head.Got(x.conn, !x.over)
	return x.cause
}

// bound bounds the time until the head has come. The caller holds mu.
func (x *exchange) bound(d time.Duration) {
	if !x.over {
		x.head.Bound(x.conn, d)
	}
}

// explain makes the error of a read one that says what has happened.
func (x *exchange) explain(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	late := isTimeout(err)
	x.stale = x.cause == nil && (x.failed != nil || !late)
	switch {
	case x.cause != nil:
		return x.cause
	case x.failed != nil && !x.head.Answered:
		return x.fault(Server, CannotSend, "sending the request to", x.failed)
	case x.head.Bounded && late:
		return x.fault(Server, TimedOut, "waiting for the response of", errHeaderTimeout)
	case errors.Is(err, io.EOF) && !x.began:
		return x.fault(Server, Closed, "waiting for the response of", errNoResponse)
	case errors.Is(err, io.EOF):
		x.ended = true
		err = io.ErrUnexpectedEOF
	}
	return x.fault(Server, Closed, "reading the response of", err)
}

// fault is an error of this exchange.
func (x *exchange) fault(side Side, kind Kind, during string, err error) *Error {
	if side == Server && x.absolute() {
		side = Proxy
	}
	return &Error{Side: side, Kind: kind, CanRetry: x.unsent || x.conn == nil || x.repeatable, During: during, Addr: x.key.addr(), Err: err}
}

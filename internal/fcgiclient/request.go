package fcgiclient

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

const (
	// requestID is the ID of all requests, because each has a connection to itself.
	requestID = 1
	// smallBody is the size up to which a body is sent with the message.
	smallBody = 16 << 10
	// maxKeptMessage limits the memory of a message that is kept for another request.
	maxKeptMessage = 64 << 10
)

// request is a request prepared for sending.
type request struct {
	*http.Request
	client    *Client
	options   *Options // nil for the Client's settings
	endpoint  endpoint
	keepAlive bool // the connection may be kept

	message       *message
	body          *roundtrip.Body // sent behind the message; nil if there is none
	bodyLength    int64           // -1 if unknown
	bodyInMessage bool            // body reads the message's memory
	// another goroutine may use the message after the request has ended
	messageShared bool
}

// message holds a request as it is sent, without a body that is streamed, and the parts that the
// message is made of.
type message struct {
	bytes, list, body []byte
	params            Params
}

// prepare makes the message.
func (q *request) prepare() (err error) {
	if q.URL == nil {
		return errors.New("fcgi: nil Request.URL")
	}
	if q.endpoint, err = q.client.endpointOf(q.Request, q.options); err != nil {
		return err
	}
	if q.Context().Err() != nil {
		return roundtrip.Cause(q.Context())
	}
	if q.message, _ = q.client.messages.Get().(*message); q.message == nil {
		q.message = new(message)
	}
	if err = q.bufferBody(); err != nil {
		return err
	}
	return q.encode()
}

// encode writes the message.
func (q *request) encode() error {
	m := q.message
	p := &m.params
	if q.client.Edit != nil {
		p = new(Params) // Edit may keep it
	}
	p.text, p.pairs = p.text[:0], p.pairs[:0]
	if err := q.describe(p); err != nil {
		return err
	}
	// PHP does not read a body of unknown length. The next request would follow it.
	q.keepAlive = q.client.MaxIdleConnsPerHost > 0 && !q.Close && q.bodyLength >= 0
	m.list = p.appendTo(m.list[:0])
	b := wire.AppendBegin(m.bytes[:0], requestID, wire.Begin{Role: wire.Responder, Keep: q.keepAlive})
	b = wire.AppendStream(b, wire.Params, requestID, m.list)
	b = wire.AppendStreamEnd(b, wire.Params, requestID)
	if q.body == nil {
		b = wire.AppendStream(b, wire.Stdin, requestID, m.body)
		b = wire.AppendStreamEnd(b, wire.Stdin, requestID)
	}
	m.bytes = b
	return nil
}

// describe sets the parameters.
func (q *request) describe(p *Params) error {
	if q.options != nil && q.options.Describe != nil {
		return q.options.Describe(p, q.bodyLength)
	}
	if err := q.client.Describe(p, q.Request, q.bodyLength); err != nil {
		return err
	}
	if q.client.Edit != nil {
		q.client.Edit(q.Request, p)
	}
	return nil
}

// stderr passes on what the application writes to STDERR.
func (q *request) stderr(text []byte) {
	switch {
	case q.options != nil && q.options.Stderr != nil:
		q.options.Stderr(text)
	case q.client.Stderr != nil:
		q.client.Stderr(q.Request, text)
	}
}

// bufferBody sets the body's length, and reads a body that is sent with the message.
func (q *request) bufferBody() error {
	q.message.body = q.message.body[:0]
	switch {
	case q.body == nil && q.ContentLength > 0:
		return bodyLengthError(q.ContentLength, 0)
	case q.body == nil:
		return nil
	}
	q.bodyLength = q.ContentLength
	if q.bodyLength == 0 {
		q.bodyLength = -1 // as net/http interprets it
	}
	if q.bodyLength > smallBody || q.bodyLength < 0 && q.client.BufferBody <= 0 {
		return nil
	}
	if err := q.readWithContext(q.readAll); err != nil {
		return err
	}
	q.body.Close()
	q.body = nil
	if len(q.message.body) > smallBody {
		q.bodyInMessage, q.messageShared = true, true
		q.body = q.messageBody()
	}
	return nil
}

// messageBody returns a body that was buffered and is too long for the message.
func (q *request) messageBody() *roundtrip.Body {
	return roundtrip.NewBody(io.NopCloser(bytes.NewReader(q.message.body)))
}

// readWithContext calls read with the body. If the context ends first, read goes on in its
// goroutine, with the message.
func (q *request) readWithContext(read func(io.Reader) error) error {
	ctx, body := q.Context(), q.body
	if ctx.Done() == nil || q.GetBody != nil { // with GetBody, it is likely in memory
		return read(body)
	}
	done := make(chan error, 1)
	go func() { done <- read(body) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		q.messageShared, q.body = true, nil
		go body.Close() // Close may wait for Read
		return roundtrip.Cause(ctx)
	}
}

// readAll reads a body of known length, or a body of unknown length up to BufferBody.
func (q *request) readAll(body io.Reader) error {
	limit := min(q.client.BufferBody, math.MaxInt64-1)
	into := bytes.NewBuffer(q.message.body)
	if q.bodyLength > 0 {
		limit = q.bodyLength
		into.Grow(int(limit) + bytes.MinRead)
	}
	// one more byte detects a body that is too long
	n, err := io.Copy(into, io.LimitReader(body, limit+1))
	q.message.body = into.Bytes()
	switch {
	case err != nil:
		return err
	case q.bodyLength > 0 && n != q.bodyLength:
		return bodyLengthError(q.bodyLength, n)
	case n > limit:
		return &http.MaxBytesError{Limit: limit}
	}
	q.bodyLength = n
	return nil
}

func bodyLengthError(want, got int64) error {
	return fmt.Errorf("fcgi: ContentLength=%d does not match the body, of which %d bytes were read", want, got)
}

// isRepeatable reports whether the request may be sent twice.
func (q *request) isRepeatable() bool {
	if q.options != nil {
		return q.options.Repeatable
	}
	return roundtrip.Repeatable(q.Request)
}

// prepareRetry prepares the request for another attempt after x failed, if it may be sent again. It
// reports whether it may.
func (q *request) prepareRetry(x *exchange) bool {
	switch {
	case q.Context().Err() != nil, !x.sentNothing && !q.isRepeatable():
		return false
	case q.body == nil:
		return true // the message holds the whole request
	case q.bodyInMessage:
		q.body = q.messageBody()
		return true
	case q.GetBody == nil:
		return false
	}
	body, err := q.GetBody()
	if err != nil {
		return false
	}
	q.body = roundtrip.NewBody(body)
	return true
}

// release returns the message for reuse.
func (q *request) release() {
	m := q.message
	if m == nil || q.messageShared || cap(m.bytes)+cap(m.list)+cap(m.body)+cap(m.params.text) > maxKeptMessage {
		return
	}
	poison(m.bytes[:cap(m.bytes)])
	poison(m.list[:cap(m.list)])
	poison(m.body[:cap(m.body)])
	poison(m.params.text[:cap(m.params.text)])
	q.message = nil
	q.client.messages.Put(m)
}

// endpoint is the address on which an application listens.
type endpoint struct{ network, addr string }

// endpointOf returns the endpoint for a request.
func (cl *Client) endpointOf(r *http.Request, o *Options) (endpoint, error) {
	if o != nil && o.Addr != "" {
		return endpoint{networkOf(o.Addr), o.Addr}, nil
	}
	switch r.URL.Scheme {
	case "", "http", "https", "fcgi":
	default:
		return endpoint{}, fmt.Errorf("fcgi: unsupported scheme %q", r.URL.Scheme)
	}
	if cl.Addr == "" {
		if host, port, err := net.SplitHostPort(r.URL.Host); err != nil || host == "" || port == "" {
			return endpoint{}, fmt.Errorf("fcgi: invalid host %q: want host and port, or set Addr", r.URL.Host)
		}
		return endpoint{"tcp", r.URL.Host}, nil
	}
	return endpoint{cmp.Or(cl.Network, networkOf(cl.Addr)), cl.Addr}, nil
}

func networkOf(addr string) string {
	if addr[0] == '/' {
		return "unix"
	}
	return "tcp"
}

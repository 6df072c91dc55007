package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// requestID is the ID of all requests, because each has a connection to itself.
const requestID = 1

// FastCGI holds the settings that a Client has for FastCGI only. Fields of fcgi.Transport have the
// same meaning here.
type FastCGI struct {
	Network string // of Config.Addr

	// Describe sets the parameters of a request. length is that of its body, -1 if it is unknown.
	Describe func(p *Params, r *http.Request, length int64) error
	// Edit may change the parameters, and keep them.
	Edit func(r *http.Request, p *Params)

	BufferBody int64
	Stderr     func(r *http.Request, text []byte)
}

// Errors of an application that rejects a request (FastCGI 1.0, section 5.5).
var (
	// ErrOverloaded is returned if the application is out of a resource.
	ErrOverloaded = errors.New("fcgi: the application is overloaded")
	// ErrCannotMultiplex is returned if the application rejects the request as a second one on its
	// connection. The Client never sends a second one, so this is a fault of the application.
	ErrCannotMultiplex = errors.New("fcgi: the application cannot multiplex requests on a connection")
	// ErrUnknownRole is returned if the application is not a Responder.
	ErrUnknownRole = errors.New("fcgi: the application does not support the Responder role")
)

// ExitError is returned if an application ends a request without a response. After a response, the
// application's status is ignored, because HTTP has no equivalent.
type ExitError struct{ Status uint32 }

func (e *ExitError) Error() string {
	return "fcgi: the application ended the request without a response, with status " +
		strconv.FormatUint(uint64(e.Status), 10)
}

// NewFastCGI returns a Client that speaks FastCGI. Each request has a connection to itself.
// NewFastCGI copies the settings.
func NewFastCGI(config *Config, f *FastCGI) *Client {
	const (
		defaultIdleTimeout = 30 * time.Second
		defaultDialTimeout = 10 * time.Second
		readBuffer         = 16 << 10
	)
	settings := *f
	c := newClient(config, protocol{
		newCodec:     func() codec { return &fastcgiCodec{config: &settings, remaining: -1} },
		framePiece:   frameStdin,
		abortMessage: wire.AppendAbort(nil, requestID),
	}, http.DefaultMaxHeaderBytes, readBuffer)
	c.config.DialTimeout = cmp.Or(c.config.DialTimeout, defaultDialTimeout)
	c.pool.limits.idleTimeout = cmp.Or(c.pool.limits.idleTimeout, defaultIdleTimeout)
	return c
}

// frameStdin is protocol.framePiece for FastCGI: a piece is a record of STDIN.
func frameStdin(_ *exchange, m []byte, n int, end bool) []byte {
	const at = roomBefore - wire.HeaderSize
	b := m[at:at]
	if n > 0 {
		wire.PutHeader(m[at:], wire.Header{Type: wire.Stdin, ID: requestID, Length: uint16(n)})
		b = m[at : roomBefore+n]
	}
	if end {
		b = wire.AppendStreamEnd(b, wire.Stdin, requestID)
	}
	return b
}

var _ codec = (*fastcgiCodec)(nil)

// fastcgiCodec is the codec of FastCGI.
type fastcgiCodec struct {
	config *FastCGI

	// of the request
	params Params
	list   []byte // the encoded parameters
	body   []byte // the body, if it was read before it is sent

	// of the response
	records     wire.Reader
	recordType  wire.Type // of the current record
	head        []byte    // the memory of a head that arrives in pieces
	wholeHead   []byte    // part of head, or of the received bytes
	cgi         http1.CGI // its offsets refer to wholeHead
	content     []byte    // of STDOUT, not read yet; part of the received bytes
	remaining   int64     // of the body; -1 if unknown
	excess      int       // bytes received behind the body's end
	stdoutEnded bool      // STDOUT has ended
	hasHead     bool      // the content that follows belongs to the body
	endIsLast   bool      // no bytes follow the end of the request
}

func (f *fastcgiCodec) reset() {
	list, body, head, text := keptOrNil(f.list), keptOrNil(f.body), keptOrNil(f.head), keptOrNil(f.params.text)
	f.cgi.Reset()
	*f = fastcgiCodec{config: f.config, list: list, body: body, head: head, cgi: f.cgi, remaining: -1,
		params: Params{text: text, pairs: f.params.pairs[:0]}}
}

// isClean implements codec. An application that has ended a request reads no more of its body.
func (f *fastcgiCodec) isClean(x *exchange) bool {
	return f.endIsLast && x.sendProgress() >= bodyEnding
}

func (f *fastcgiCodec) route(x *exchange) error {
	u, k := x.request.URL, &x.key
	if call := x.scratch.call; call != nil && call.Addr != "" {
		k.network, k.address = networkOf(call.Addr), call.Addr
		return nil
	}
	if u == nil {
		return errors.New("fcgi: nil Request.URL")
	}
	switch u.Scheme {
	case "", "http", "https", "fcgi":
	default:
		return fmt.Errorf("fcgi: unsupported scheme %q", u.Scheme)
	}
	if addr := x.client.config.Addr; addr != "" {
		k.network, k.address = cmp.Or(f.config.Network, networkOf(addr)), addr
		return nil
	}
	if host, port, err := net.SplitHostPort(u.Host); err != nil || host == "" || port == "" {
		return fmt.Errorf("fcgi: invalid host %q: want host and port, or set Addr", u.Host)
	}
	k.network, k.address = "tcp", u.Host
	return nil
}

func networkOf(addr string) string {
	if addr[0] == '/' {
		return "unix"
	}
	return "tcp"
}

// stderr passes on what the application writes to STDERR.
func (f *fastcgiCodec) stderr(x *exchange, text []byte) {
	if hooks := x.scratch.call.hooks(); hooks != nil {
		hooks.Stderr(text)
	} else if f.config.Stderr != nil {
		f.config.Stderr(x.request, text)
	}
}

func (f *fastcgiCodec) encode(x *exchange) error {
	if err := f.bufferBody(x); err != nil {
		return err
	}
	p, err := f.paramsOf(x)
	if err != nil {
		return err
	}
	// PHP does not read a body of unknown length. The next request would follow it.
	x.keepAlive = x.client.pool.limits.maxIdlePerHost > 0 && !x.request.Close && x.bodyLength >= 0
	f.list = p.appendTo(f.list[:0])
	b := wire.AppendBegin(x.scratch.out, requestID, wire.Begin{Role: wire.Responder, Keep: x.keepAlive})
	b = wire.AppendStream(b, wire.Params, requestID, f.list)
	b = wire.AppendStreamEnd(b, wire.Params, requestID)
	if !x.streamsBody() {
		b = wire.AppendStream(b, wire.Stdin, requestID, f.body)
		b = wire.AppendStreamEnd(b, wire.Stdin, requestID)
	}
	x.scratch.out = b
	return nil
}

// paramsOf returns the parameters of a request.
func (f *fastcgiCodec) paramsOf(x *exchange) (*Params, error) {
	if call := x.scratch.call; call != nil && call.Params != nil {
		return call.Params, nil
	}
	p := &f.params
	if f.config.Edit != nil {
		p = new(Params) // Edit may keep it
	}
	p.Clear()
	if err := f.config.Describe(p, x.request, x.bodyLength); err != nil {
		return nil, err
	}
	if f.config.Edit != nil {
		f.config.Edit(x.request, p)
	}
	return p, nil
}

// bufferBody sets the body's length. It reads a short body, and one of unknown length if
// CONTENT_LENGTH must be set.
func (f *fastcgiCodec) bufferBody(x *exchange) error {
	length := x.request.ContentLength
	switch {
	case x.body == nil && length > 0:
		return bodyLengthError(length, 0)
	case x.body == nil:
		return nil
	case length == 0:
		length = -1 // as net/http interprets it
	}
	x.bodyLength = length
	isStreamed := x.scratch.call != nil && x.scratch.call.StreamBody
	if length > smallBody || length > 0 && isStreamed || length < 0 && f.config.BufferBody <= 0 {
		return nil
	}
	b, err := f.readWithContext(x)
	switch {
	case err != nil && x.ctx.Err() != nil:
		return contextCause(x.ctx)
	case err != nil:
		return x.newError(Local, BadBody, whileGettingBody, err)
	}
	x.body.Close()
	x.bodyLength = int64(len(b))
	if x.bodyBuffered = len(b) <= smallBody; x.bodyBuffered {
		f.body = b
		return nil
	}
	x.getBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	x.body = &requestBody{body: io.NopCloser(bytes.NewReader(b))}
	f.body = nil // its sender may outlive the exchange
	return nil
}

// readWithContext reads the whole body. If the context ends first, the read goes on in its
// goroutine, with memory of its own.
func (f *fastcgiCodec) readWithContext(x *exchange) ([]byte, error) {
	body, into, length, most := x.body, f.body[:0], x.bodyLength, f.config.BufferBody
	if x.ctx.Done() == nil || x.getBody != nil { // with getBody, it is likely in memory
		return readAll(body, into, length, most)
	}
	f.body = nil
	var b []byte
	done := make(chan error, 1)
	go func() {
		var err error
		b, err = readAll(body, into, length, most)
		done <- err
	}()
	select {
	case err := <-done:
		return b, err
	case <-x.ctx.Done():
		x.body = nil
		body.closeLater() // Close may wait for Read
		return nil, x.ctx.Err()
	}
}

// readAll reads a body of known length, or a body of unknown length up to a limit, into the memory
// of a buffer.
func readAll(body io.Reader, into []byte, length, most int64) ([]byte, error) {
	limit := min(most, math.MaxInt64-1)
	buffer := bytes.NewBuffer(into)
	if length > 0 {
		limit = length
		buffer.Grow(int(limit) + bytes.MinRead)
	}
	// one more byte detects a body that is too long
	n, err := io.Copy(buffer, io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case length > 0 && n != length:
		return nil, bodyLengthError(length, n)
	case n > limit:
		return nil, &http.MaxBytesError{Limit: limit}
	}
	return buffer.Bytes(), nil
}

package client

import (
	"bytes"
	"io"
	"math"
	"net/http"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// encode implements codec.
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
	x.body = newRequestBody(io.NopCloser(bytes.NewReader(b)))
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

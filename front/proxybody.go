package front

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// bodyInMemory is how much of a request's body stays in memory, as in nginx on most machines; more is put into a file.
	maxBodyInMemory = 16 << 10
	// bodyPiece is how much of it is copied at a time.
	bodyCopySize = 32 << 10
)

// requestBody is a request's body, as it is sent to upstreams: whole, and then as often as need be, or as it comes, and then once.
type requestBody struct {
	memory []byte
	file   *temporary
	length int64 // -1 if it is not known

	stream *streamedBody // nil if it is whole
}

// receive has the body of the request there, if it is to be received before an upstream is asked.
func (p *proxy) receiveBody(x *exchange) outcome {
	isUnused := p.body != nil || p.from.NoBody
	if x.clientBody != nil || isUnused && !x.plan.readsBodies || !hasBody(x) {
		return proceed
	}
	if p.from.StreamRequest && !isUnused {
		x.clientBody = streamBody(x)
		return proceed
	}
	b, err := readBody(x.r.Body, x.r.ContentLength)
	if err != nil {
		b.close()
		x.errorf(levelInfo, "reading the request's body: %v", err)
		if status := x.bodyStatus.Load(); status != 0 {
			return x.fail(int(status))
		}
		return x.fail(int(bodyStatus(err)))
	}
	if x.clientBody = b; x.r.ContentLength < 0 { // it is known from now on
		r := x.r.WithContext(x.r.Context())
		r.ContentLength, r.TransferEncoding = b.length, nil
		x.r = r
	}
	return proceed
}

// requestBodyText is $request_body: what an upstream's location has received, if it is whole and in memory.
func requestBodyValue(x *exchange) string {
	if x.proxyState == nil || x.clientBody == nil || x.clientBody.stream != nil || x.clientBody.file != nil {
		return ""
	}
	return string(x.clientBody.memory)
}

// hasBody reports whether the request has a body that it still has: error pages are asked without.
func hasBody(x *exchange) bool {
	return x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 && x.method == x.r.Method
}

// receiveBody receives a body. What it returns is to be closed, whatever the error.
func readBody(from io.Reader, length int64) (*requestBody, error) {
	b := &requestBody{}
	if length > 0 && length <= maxBodyInMemory {
		b.memory = make([]byte, length)
		n, err := io.ReadFull(from, b.memory)
		b.length = int64(n)
		return b, err
	}
	memory := bytes.NewBuffer(make([]byte, 0, bytes.MinRead))
	n, err := io.Copy(memory, io.LimitReader(from, maxBodyInMemory+1))
	if b.memory, b.length = memory.Bytes(), n; err != nil || n <= maxBodyInMemory {
		return b, err
	}
	if b.file, err = newTemporary(); err != nil {
		return b, err
	}
	if _, err = b.file.Write(b.memory); err != nil {
		return b, err
	}
	more, err := io.CopyBuffer(b.file, from, make([]byte, bodyCopySize))
	b.memory, b.length = nil, n+more
	if err == nil && length >= 0 && b.length != length {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// close gives back what the body has.
func (b *requestBody) close() {
	if b.file != nil {
		b.file.discard()
		b.file = nil
	}
	if b.stream != nil {
		b.stream.end()
	}
}

// open reads the body from its beginning. It fails if that is gone.
func (b *requestBody) open() (io.ReadCloser, error) {
	switch {
	case b == nil || b.length == 0:
		return http.NoBody, nil
	case b.stream != nil:
		if b.stream.hasStarted() {
			return nil, errBodyConsumed
		}
		return b.stream, nil
	case b.file != nil:
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.length)), nil
	}
	return &memoryBody{Reader: bytes.NewReader(b.memory)}, nil
}

// again reports whether the body can be had from its beginning.
func (b *requestBody) isAvailable() bool {
	return b == nil || b.stream == nil || !b.stream.hasStarted()
}

// memoryBody is a body in memory.
type memoryBody struct{ *bytes.Reader }

// Close implements io.Closer.
func (*memoryBody) Close() error { return nil }

var errBodyConsumed = errors.New("the request's body was sent before, and is gone")

// bodyOf is what is sent as the body of a request.
func (p *proxy) upstreamBody(x *exchange) *requestBody {
	switch {
	case p.body != nil:
		text := p.body.eval(x)
		return &requestBody{memory: []byte(text), length: int64(len(text))}
	case p.from.NoBody || x.clientBody == nil || x.method != x.r.Method:
		return nil
	}
	return x.clientBody
}

// streamedBody is a body that is passed on as it comes. A client sends it in the background; whoever ends it waits for that.
type streamedBody struct {
	from       io.Reader
	controller *http.ResponseController

	mu        sync.Mutex
	started   bool // somebody has begun to
	isReading bool // in a Read
	isClosed  bool
	readDone  sync.Cond // waiting has become false
}

// streamBody passes a request's body on as it comes.
func streamBody(x *exchange) *requestBody {
	s := &streamedBody{from: x.r.Body, controller: http.NewResponseController(x.serverWriter())}
	s.readDone.L = &s.mu
	_ = s.controller.EnableFullDuplex() // else an answer waits until the client has sent all, or its time is up; a server that cannot has it wait
	if b := x.body; b != nil {
		if limit := x.loc.limits.maxBody; limit >= 0 && x.r.ContentLength < 0 {
			b.ReadCloser = &lengthLimitedBody{ReadCloser: b.original, remaining: limit, limit: limit} // net/http's writes to the answer's header, behind our back
		}
		s.from = b
	}
	return &requestBody{length: x.r.ContentLength, stream: s}
}

// cappedBody ends with *http.MaxBytesError behind so many bytes.
type lengthLimitedBody struct {
	io.ReadCloser
	remaining, limit int64
}

func (b *lengthLimitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1] // one byte more is too many
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.remaining {
		n, err = int(b.remaining), &http.MaxBytesError{Limit: b.limit}
	}
	b.remaining -= int64(n)
	return n, err
}

func (s *streamedBody) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

func (s *streamedBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	s.started, s.isReading = true, true
	s.mu.Unlock()
	n, err := s.from.Read(p)
	s.mu.Lock()
	s.isReading = false
	s.readDone.Broadcast()
	s.mu.Unlock()
	return n, err
}

// Close implements io.Closer. The request's body is the server's to close.
func (s *streamedBody) Close() error { return nil }

// end returns once nobody reads any more. A client that is in no hurry is cut short.
func (s *streamedBody) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed = true; s.isReading {
		_ = s.controller.SetReadDeadline(time.Unix(1, 0)) // without deadlines the body's end is waited for
	}
	for s.isReading {
		s.readDone.Wait()
	}
}

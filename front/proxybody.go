package front

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
)

const (
	// maxBodyInMemory is the length up to which a request's body stays in memory. Longer ones are
	// spooled. nginx's default is two memory pages, 8 or 16 KB.
	maxBodyInMemory = 16 << 10
	// bodyCopySize is the size of one copy to the spool file.
	bodyCopySize = 32 << 10
)

// requestBody is a request's body as upstreams receive it: either received completely and
// repeatable, or streamed once.
type requestBody struct {
	memory []byte
	file   *spoolFile
	length int64 // -1 if unknown

	stream *streamedBody // nil if the body was received completely
}

// receiveBody receives the request's body, unless it is streamed.
func (p *proxy) receiveBody(x *exchange) outcome {
	isUnused := p.body != nil || p.from.NoBody
	inFile := x.loc.settings.BodyFile != conf.NoBodyFile
	if x.proxy.clientBody != nil || isUnused && x.plan.needs&needsBody == 0 && !inFile || !hasBody(x) {
		return proceed
	}
	if p.from.StreamRequest && !isUnused && !inFile {
		x.proxy.clientBody = streamBody(x)
		return proceed
	}
	return x.receiveWhole()
}

// receiveWhole receives the request's body completely. The exchange has a proxyState.
func (x *exchange) receiveWhole() outcome {
	var b *requestBody
	var err error
	if s := x.loc.settings; s.BodyFile != conf.NoBodyFile {
		b, err = readBodyFile(x.r.Body, x.r.ContentLength, s)
	} else {
		b, err = readBody(x.r.Body, x.r.ContentLength)
	}
	if err != nil {
		b.close()
		x.errorf(levelInfo, "reading the request's body: %v", err)
		if status := x.bodyStatus.Load(); status != 0 {
			return x.fail(int(status))
		}
		return x.fail(int(bodyStatus(err)))
	}
	if x.proxy.clientBody = b; x.r.ContentLength < 0 { // its length is known now
		r := x.r.WithContext(x.r.Context())
		r.ContentLength, r.TransferEncoding = b.length, nil
		x.r = r
	}
	return proceed
}

// requestBodyValue is $request_body: the body if it was received completely and is in memory.
func requestBodyValue(x *exchange) string {
	if x.proxy == nil || x.proxy.clientBody == nil || x.proxy.clientBody.stream != nil ||
		x.proxy.clientBody.file != nil {
		return ""
	}
	return string(x.proxy.clientBody.memory)
}

// hasBody reports whether the request has a body. Error pages are requested without it.
func hasBody(x *exchange) bool {
	return x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 && x.method == x.r.Method
}

// readBody reads a body. The caller must close what it returns, also after an error.
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
	if b.file, err = newSpoolFile(); err != nil {
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

// readBodyFile reads a body into a file with a name. The caller must close what it returns, also
// after an error.
func readBodyFile(from io.Reader, length int64, s *conf.Settings) (b *requestBody, err error) {
	b = &requestBody{}
	if b.file, err = newBodyFile(s.BodyDir, s.BodyFile == conf.KeepBodyFile); err != nil {
		return b, err
	}
	b.length, err = io.CopyBuffer(b.file, from, make([]byte, bodyCopySize))
	if err == nil && length >= 0 && b.length != length {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// requestBodyFile is $request_body_file.
func requestBodyFile(x *exchange) string {
	if x.proxy == nil || x.proxy.clientBody == nil || x.proxy.clientBody.file == nil || !x.proxy.clientBody.file.named {
		return ""
	}
	return x.proxy.clientBody.file.Name()
}

// close releases the body's file, and ends its stream.
func (b *requestBody) close() {
	if b.file != nil {
		b.file.discard()
		b.file = nil
	}
	if b.stream != nil {
		b.stream.end()
	}
}

// share returns a complete body for another request.
func (b *requestBody) share() *requestBody {
	shared := &requestBody{memory: b.memory, length: b.length}
	if b.file != nil {
		shared.file = b.file.share()
	}
	return shared
}

// open returns the body from its start, or errBodyConsumed.
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

// isAvailable reports whether open would succeed.
func (b *requestBody) isAvailable() bool {
	return b == nil || b.stream == nil || !b.stream.hasStarted()
}

// memoryBody is a body in memory.
type memoryBody struct{ *bytes.Reader }

// Close implements io.Closer.
func (*memoryBody) Close() error { return nil }

var errBodyConsumed = errors.New("the request's body was already sent and is not buffered")

// upstreamBody returns the body for the upstream, or nil.
func (p *proxy) upstreamBody(x *exchange) *requestBody {
	switch {
	case p.body != nil:
		text := p.body.eval(x)
		return &requestBody{memory: []byte(text), length: int64(len(text))}
	case p.from.NoBody || x.proxy.clientBody == nil || x.method != x.r.Method:
		return nil
	}
	return x.proxy.clientBody
}

// streamedBody is a body that is forwarded while it arrives. An HTTP client may read it in the
// background; end waits for that.
type streamedBody struct {
	from       io.Reader
	controller *http.ResponseController

	mu        sync.Mutex
	started   bool // Read was called
	isReading bool // in a Read
	isClosed  bool
	readDone  sync.Cond // isReading became false
}

// streamBody returns a requestBody that forwards the request's body while it arrives.
func streamBody(x *exchange) *requestBody {
	s := &streamedBody{from: x.r.Body, controller: http.NewResponseController(x.serverWriter())}
	s.readDone.L = &s.mu
	// Without full duplex a response waits until the client has sent everything or times out. A
	// server that does not support it lets the response wait.
	_ = s.controller.EnableFullDuplex()
	if b := x.body; b != nil {
		if limit := x.loc.limits.maxBody; limit >= 0 && x.r.ContentLength < 0 {
			// http.MaxBytesReader would write to the response's header from another goroutine.
			b.ReadCloser = &lengthLimitedBody{ReadCloser: b.original, remaining: limit, limit: limit}
		}
		s.from = b
	}
	return &requestBody{length: x.r.ContentLength, stream: s}
}

// lengthLimitedBody returns *http.MaxBytesError after limit bytes.
type lengthLimitedBody struct {
	io.ReadCloser
	remaining, limit int64
}

func (b *lengthLimitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1] // one byte more exceeds the limit
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

// Close implements io.Closer. The server closes the request's body.
func (s *streamedBody) Close() error { return nil }

// end waits until there is no reader. A slow client is interrupted.
func (s *streamedBody) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed = true; s.isReading {
		// without deadlines it waits for the body's end
		_ = s.controller.SetReadDeadline(time.Unix(1, 0))
	}
	for s.isReading {
		s.readDone.Wait()
	}
}

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
	bodyInMemory = 16 << 10
	// bodyPiece is how much of it is copied at a time.
	bodyPiece = 32 << 10
)

// requestBody is a request's body, as it is sent to upstreams: whole, and then as often as need be, or as it comes, and then once.
type requestBody struct {
	memory []byte
	file   *temporary
	length int64 // -1 if it is not known

	stream *streamedBody // nil if it is whole
}

// receive has the body of the request there, if it is to be received before an upstream is asked.
func (p *pass) receive(x *exchange) outcome {
	unsent := p.body != nil || p.from.NoBody
	if x.sent != nil || unsent && !x.plan.readsBodies || !hasBody(x) {
		return proceed
	}
	if p.from.StreamRequest && !unsent {
		x.sent = streamBody(x)
		return proceed
	}
	b, err := receiveBody(x.r.Body, x.r.ContentLength)
	if err != nil {
		b.close()
		x.errorf(levelInfo, "reading the request's body: %v", err)
		if status := x.bodyStatus.Load(); status != 0 {
			return x.fail(int(status))
		}
		return x.fail(int(bodyStatus(err)))
	}
	if x.sent = b; x.r.ContentLength < 0 { // it is known from now on
		r := x.r.WithContext(x.r.Context())
		r.ContentLength, r.TransferEncoding = b.length, nil
		x.r = r
	}
	return proceed
}

// requestBodyText is $request_body: what an upstream's location has received, if it is whole and in memory.
func requestBodyText(x *exchange) string {
	if x.passing == nil || x.sent == nil || x.sent.stream != nil || x.sent.file != nil {
		return ""
	}
	return string(x.sent.memory)
}

// hasBody reports whether the request has a body that it still has: error pages are asked without.
func hasBody(x *exchange) bool {
	return x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 && x.method == x.r.Method
}

// receiveBody receives a body. What it returns is to be closed, whatever the error.
func receiveBody(from io.Reader, length int64) (*requestBody, error) {
	b := &requestBody{}
	if length > 0 && length <= bodyInMemory {
		b.memory = make([]byte, length)
		n, err := io.ReadFull(from, b.memory)
		b.length = int64(n)
		return b, err
	}
	memory := bytes.NewBuffer(make([]byte, 0, bytes.MinRead))
	n, err := io.Copy(memory, io.LimitReader(from, bodyInMemory+1))
	if b.memory, b.length = memory.Bytes(), n; err != nil || n <= bodyInMemory {
		return b, err
	}
	if b.file, err = newTemporary(); err != nil {
		return b, err
	}
	if _, err = b.file.Write(b.memory); err != nil {
		return b, err
	}
	more, err := io.CopyBuffer(b.file, from, make([]byte, bodyPiece))
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
		if b.stream.begun() {
			return nil, errGone
		}
		return b.stream, nil
	case b.file != nil:
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.length)), nil
	}
	return &memoryBody{Reader: bytes.NewReader(b.memory)}, nil
}

// again reports whether the body can be had from its beginning.
func (b *requestBody) again() bool { return b == nil || b.stream == nil || !b.stream.begun() }

// memoryBody is a body in memory.
type memoryBody struct{ *bytes.Reader }

// Close implements io.Closer.
func (*memoryBody) Close() error { return nil }

var errGone = errors.New("the request's body was sent before, and is gone")

// bodyOf is what is sent as the body of a request.
func (p *pass) bodyOf(x *exchange) *requestBody {
	switch {
	case p.body != nil:
		text := p.body.of(x)
		return &requestBody{memory: []byte(text), length: int64(len(text))}
	case p.from.NoBody || x.sent == nil || x.method != x.r.Method:
		return nil
	}
	return x.sent
}

// streamedBody is a body that is passed on as it comes. A client sends it in the background; whoever ends it waits for that.
type streamedBody struct {
	from    io.Reader
	control *http.ResponseController

	mu      sync.Mutex
	read    bool // somebody has begun to
	waiting bool // in a Read
	ended   bool
	idle    sync.Cond // waiting has become false
}

// streamBody passes a request's body on as it comes.
func streamBody(x *exchange) *requestBody {
	s := &streamedBody{from: x.r.Body, control: http.NewResponseController(x.server())}
	s.idle.L = &s.mu
	_ = s.control.EnableFullDuplex() // else an answer waits until the client has sent all, or its time is up; a server that cannot has it wait
	if b := x.body; b != nil {
		if most := x.loc.limits.maxBody; most >= 0 && x.r.ContentLength < 0 {
			b.ReadCloser = &cappedBody{ReadCloser: b.whole, left: most, most: most} // net/http's writes to the answer's header, behind our back
		}
		s.from = b
	}
	return &requestBody{length: x.r.ContentLength, stream: s}
}

// cappedBody ends with *http.MaxBytesError behind so many bytes.
type cappedBody struct {
	io.ReadCloser
	left, most int64
}

func (b *cappedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more is too many
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), &http.MaxBytesError{Limit: b.most}
	}
	b.left -= int64(n)
	return n, err
}

func (s *streamedBody) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

func (s *streamedBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	s.read, s.waiting = true, true
	s.mu.Unlock()
	n, err := s.from.Read(p)
	s.mu.Lock()
	s.waiting = false
	s.idle.Broadcast()
	s.mu.Unlock()
	return n, err
}

// Close implements io.Closer. The request's body is the server's to close.
func (s *streamedBody) Close() error { return nil }

// end returns once nobody reads any more. A client that is in no hurry is cut short.
func (s *streamedBody) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; s.waiting {
		_ = s.control.SetReadDeadline(time.Unix(1, 0)) // without deadlines the body's end is waited for
	}
	for s.waiting {
		s.idle.Wait()
	}
}

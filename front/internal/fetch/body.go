package fetch

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

const (
	// DefaultBodyBuffer is the length up to which a request's body stays in memory by default.
	// Longer ones are spooled. nginx's default is two memory pages, 8 or 16 KB.
	DefaultBodyBuffer = 16 << 10
	// firstBuffer is the maximum memory for a body before its bytes arrive.
	firstBuffer = 16 << 10
	// minCopySize and maxCopySize limit the size of one copy to a file. A client that sends slowly
	// holds minCopySize.
	minCopySize, maxCopySize = 4 << 10, 32 << 10
)

// Body is a request's body as upstreams receive it: either received completely and repeatable, or
// streamed once.
type Body struct {
	memory []byte
	file   *spoolFile
	length int64 // -1 if unknown

	stream *streamedBody // nil if the body was received completely
}

// NewBody returns a body of a text.
func NewBody(text string) *Body {
	return &Body{memory: []byte(text), length: int64(len(text))}
}

// ReadBody reads a body of a length, -1 if it is unknown. A body of up to inMemory bytes stays in
// memory. The caller must close what ReadBody returns, also after an error.
func ReadBody(from io.Reader, length, inMemory int64) (*Body, error) {
	b := &Body{}
	if length > 0 && length <= min(inMemory, firstBuffer) {
		b.memory = make([]byte, length)
		n, err := io.ReadFull(from, b.memory)
		b.length = int64(n)
		return b, err
	}
	memory := bytes.NewBuffer(make([]byte, 0, bytes.MinRead))
	n, err := io.Copy(memory, io.LimitReader(from, max(inMemory, inMemory+1)))
	if b.memory, b.length = memory.Bytes(), n; err != nil {
		return b, err
	}
	if n <= inMemory {
		if length >= 0 && n != length {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	if b.file, err = newSpoolFile(); err != nil {
		return b, err
	}
	if _, err = b.file.Write(b.memory); err != nil {
		return b, err
	}
	b.memory = nil
	return b, b.readToFile(from, length)
}

// ReadBodyFile reads a body into a file with a name, which stays if isKept. The caller must close
// what it returns, also after an error.
func ReadBodyFile(from io.Reader, length int64, dir string, isKept bool) (b *Body, err error) {
	b = &Body{}
	if b.file, err = newBodyFile(dir, isKept); err != nil {
		return b, err
	}
	return b, b.readToFile(from, length)
}

// readToFile reads the rest of a body, whose length is known if it is not negative. Its buffer grows
// while reads fill it. io.Copy would have 32 KB for each of thousands of slow clients.
func (b *Body) readToFile(from io.Reader, length int64) error {
	for buffer := make([]byte, minCopySize); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := b.file.Write(buffer[:n]); err != nil {
				return err
			}
			b.length += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF) && length >= 0 && b.length != length:
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == len(buffer) && n < maxCopySize:
			buffer = make([]byte, 2*n)
		}
	}
}

// Close releases the body's file, whose name it keeps for logs, and ends its stream. It must be
// called only once. b may be nil.
func (b *Body) Close() {
	if b == nil {
		return
	}
	if b.file != nil {
		b.file.discard()
	}
	if b.stream != nil {
		b.stream.end()
	}
}

// Share returns a complete body for another request.
func (b *Body) Share() *Body {
	if b.file != nil {
		b.file.users.Add(1)
	}
	return &Body{memory: b.memory, file: b.file, length: b.length}
}

// Open returns the body from its start, or ErrBodyConsumed.
func (b *Body) Open() (io.ReadCloser, error) {
	switch {
	case b == nil || b.length == 0:
		return http.NoBody, nil
	case b.stream != nil:
		return b.stream.open()
	case b.file != nil:
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.length)), nil
	}
	return &memoryBody{Reader: bytes.NewReader(b.memory)}, nil
}

// IsAvailable reports whether Open would succeed.
func (b *Body) IsAvailable() bool {
	return b == nil || b.stream == nil || b.stream.isAvailable()
}

type memoryBody struct{ *bytes.Reader }

// Close implements io.Closer.
func (*memoryBody) Close() error { return nil }

// ErrBodyConsumed is returned for the body of a request that cannot be sent again.
var ErrBodyConsumed = errors.New("the request's body was already sent and is not buffered")

// Length returns the length, -1 if it is unknown.
func (b *Body) Length() int64 { return b.length }

// IsStreamed reports whether the body is forwarded while it arrives. b may be nil.
func (b *Body) IsStreamed() bool { return b != nil && b.stream != nil }

// Text returns the body if it was received completely and is in memory, else "". b may be nil.
func (b *Body) Text() string {
	if b == nil {
		return ""
	}
	return string(b.memory)
}

// FileName returns the name of the body's file, "" if it is in memory or b is nil. As in nginx
// nothing has the name of a file that ReadBody has made: it was removed when it was opened.
func (b *Body) FileName() string {
	if b == nil || b.file == nil {
		return ""
	}
	return b.file.Name()
}

package proxy

import (
	"errors"
	"io"
)

// bodySeeker is the io.Seeker of a body of known length.
type bodySeeker struct {
	length int64
	offset int64 // of the next Read
}

// Seek implements io.Seeker.
func (b *bodySeeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.offset
	case io.SeekEnd:
		offset += b.length
	}
	b.offset = offset
	return offset, nil
}

// forwardBody makes a body an io.ReadSeeker that reads forward only: it discards what is before the
// offset.
type forwardBody struct {
	bodySeeker
	from io.Reader
	at   int64 // of what from returns next
	err  error // sticky
}

// errBackward is a bug: of one range, bytes are read once.
var errBackward = errors.New("proxy: BUG: a body is read backward")

// HasInput implements connection.InputReporter.
func (b *forwardBody) HasInput() bool { return b.offset == b.at && hasInput(b.from) }

// Read implements io.Reader.
func (b *forwardBody) Read(p []byte) (n int, err error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.offset >= b.length:
		return 0, io.EOF
	case b.offset < b.at:
		b.err = errBackward
		return 0, b.err
	}
	skipped, err := io.CopyN(io.Discard, b.from, b.offset-b.at)
	b.at += skipped
	if err == nil {
		n, err = b.from.Read(p[:min(int64(len(p)), b.length-b.at)])
		b.at += int64(n)
		b.offset = b.at
	}
	if errors.Is(err, io.EOF) {
		if err = nil; b.at < b.length {
			err = io.ErrUnexpectedEOF
		}
	}
	b.err = err
	return n, err
}

package client

import (
	"fmt"
	"io"
	"net/http"
	"net/textproto"

	"github.com/tarehq/tare/internal/wire/http1"
)

// fill reads from the connection and appends to the unparsed input.
func (x *exchange) fill() error {
	s := x.scratch
	switch {
	case s.in == nil:
		x.client.borrowInput(s)
	case s.parsed == s.filled:
		s.parsed, s.filled = 0, 0
	case s.filled < len(s.in):
	case s.parsed > 0:
		s.filled = copy(s.in, s.received())
		s.parsed = 0
	default:
		s.in = append(s.in, make([]byte, len(s.in))...)
	}
	n, err := x.read(s.in[s.filled:])
	s.filled += n
	return err
}

// hasInput reports whether readBody would return at once: bytes that have arrived, or an error.
func (x *exchange) hasInput() bool {
	s, c := x.scratch, x.conn
	if s.parsed == s.filled {
		s.parsed, s.filled = 0, 0
	}
	switch {
	case s.codec.hasInput(s), c.hasInput():
		return true
	case c.tlsConn == nil, s.filled == len(s.in):
		return false
	}
	n, isDrained := c.readUnread(s.in[s.filled:])
	s.filled += n
	c.traffic.received.Add(int64(n))
	return n == 0 && !isDrained || s.codec.hasInput(s)
}

// awaitInput waits until bytes arrive on the socket, or its end. Meanwhile the exchange has no
// input buffer, which would be half of the memory of a stream through a proxy.
func (x *exchange) awaitInput() {
	s, c := x.scratch, x.conn
	if c.raw == nil || len(s.received()) > 0 || s.codec.hasInput(s) {
		return
	}
	x.client.releaseInput(s)
	c.raw.awaitInput()
}

// receiveInto reads into p, through the scratch if p is small. The scratch has no unparsed input.
func (x *exchange) receiveInto(p []byte) (int, error) {
	if len(p) >= len(x.scratch.in) {
		return x.read(p)
	}
	if err := x.fill(); err != nil {
		return 0, err
	}
	return x.scratch.takeInto(p), nil
}

// read reads from the connection. It returns bytes or an error, not both.
func (x *exchange) read(p []byte) (int, error) {
	n, err := x.conn.Read(p)
	for empty := 1; n == 0 && err == nil; empty++ {
		if n, err = x.conn.Read(p); empty == maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	x.conn.traffic.received.Add(int64(n))
	if n == 0 {
		return 0, x.readError(err)
	}
	x.firstReceived()
	return n, nil
}

// firstReceived records that a part of a response was received.
func (x *exchange) firstReceived() {
	if !x.receivedAny && x.trace != nil && x.trace.GotFirstResponseByte != nil {
		x.trace.GotFirstResponseByte()
	}
	x.receivedAny = true
}

// callInterim calls the hook for an interim response, and reports whether there is one.
func (x *exchange) callInterim(status int, hooks Hooks, header func() http.Header) (isSeen bool, err error) {
	switch trace := x.trace; {
	case trace != nil && trace.Got1xxResponse != nil:
		err = trace.Got1xxResponse(status, textproto.MIMEHeader(header()))
	case hooks != nil && status != http.StatusContinue:
		hooks.Interim(status, header())
	default:
		return false, nil
	}
	if err != nil {
		err = x.newError(Local, Malformed, whileReadingHead, fmt.Errorf("%w: %w", errHookFailed, err))
	}
	return true, err
}

// setResponse copies the request and the TLS state into the response.
func (x *slab) setResponse() {
	x.response.Request, x.response.TLS = x.request, x.conn.tlsState
}

// headerValues returns room for the slices of the response's Header. A slab that is used again has
// none: a server may send the values after Memory.Reset.
func (x *slab) headerValues() []string {
	if x.scratch.memory != nil {
		return nil
	}
	return x.values[:0]
}

// makeHeader makes an http.Header from the field lines of text, without Transfer-Encoding, which
// net/http keeps elsewhere. It fills h, or a new map if h is nil. The header's slices share values
// while it has room.
func makeHeader(h http.Header, lines []http1.Field, text *http1.Text, values []string) http.Header {
	c := http1.Collect(h, len(lines), values)
	c.AddFields(lines, text, textproto.CanonicalMIMEHeaderKey)
	return c.Fields
}

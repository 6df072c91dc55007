package client

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// chunkSize is how much of a body is read and sent at a time.
	chunkSize = 32 << 10
	// chunkBefore and chunkAfter are the room for a chunk's size line, and for its end and
	// that of the body.
	chunkBefore = len("fffffff\r\n")
	chunkAfter  = len("\r\n0\r\n")
)

// chunk is memory for a piece of a body: room around it, and one byte more, to look for the
// body's end.
type chunk struct {
	b [chunkBefore + chunkSize + 1 + chunkAfter]byte
}

// progress is how far a request has been sent.
type progress uint8

const (
	waiting    progress = iota // the body has not begun
	sending                    // it has
	sendingEnd                 // the last write has begun
	sent
)

// gather reads a body that is to be sent with the head: a short one that is at hand.
func (x *exchange) gather() error {
	if x.body == nil || x.expects || x.length < 0 || x.length > smallBody || x.request.GetBody == nil {
		return nil
	}
	out := x.scratch.out
	start, end := len(out), len(out)+int(x.length)
	if cap(out) <= end {
		out = append(make([]byte, 0, end+512), out...)
	}
	out = out[:end+1] // one byte more is too many
	n := start
	for empty, last := 0, false; n <= end && !last; empty++ {
		k, eof, err := x.body.Piece(out[n:], empty)
		if err != nil {
			return err
		}
		if n, last = n+k, eof; k > 0 {
			empty = 0
		}
	}
	if n != end {
		return lengthFault(x.length, int64(n-start))
	}
	x.scratch.out = out[:end]
	x.body.Close()
	x.gathered = true
	return nil
}

func lengthFault(want, got int64) error {
	if got < want {
		return fmt.Errorf("http: ContentLength=%d with Body length %d", want, got)
	}
	return fmt.Errorf("http: ContentLength=%d with Body length %d or more", want, got)
}

// send sends the request. What is not in the scratch is sent by another goroutine, so that
// the response can come before all of it has gone. An error is returned if nothing at all was
// sent; else the server may have answered.
func (x *exchange) send() error {
	if x.talks() {
		return x.ask(x.conn.Value.talk)
	}
	n, err := x.conn.Write(x.scratch.out)
	switch trace := x.trace; {
	case err != nil:
		x.stopped(err)
		if x.unsent = n == 0; x.unsent {
			return x.explain(err)
		}
		return nil
	case trace != nil && trace.WroteHeaders != nil:
		trace.WroteHeaders()
	}
	switch {
	case !x.streams():
		x.done()
	case x.expects:
		if x.trace != nil && x.trace.Wait100Continue != nil {
			x.trace.Wait100Continue()
		}
		x.mu.Lock()
		if !x.over {
			x.hurry = time.AfterFunc(x.client.ExpectContinueTimeout, x.proceed)
		}
		x.mu.Unlock()
	default:
		x.proceed()
	}
	return nil
}

// talks reports whether the request is sent, and the response awaited, in one go.
func (x *exchange) talks() bool {
	return x.conn.Value.talk != nil && !x.conn.Listened() && !x.streams() && x.trace == nil && x.client.ResponseHeaderTimeout <= 0
}

// ask sends a request that is whole, and receives the beginning of the response.
func (x *exchange) ask(t *talk) error {
	s := x.scratch
	x.from, x.to = 0, 0
	n, received, err := t.ask(s.out, s.in, x.conn.Reused)
	if err == nil && n < len(s.out) { // the socket is full
		var more int
		more, err = x.conn.Write(s.out[n:])
		n += more
	}
	switch {
	case n < len(s.out):
		x.stopped(err)
		if x.unsent = n == 0; x.unsent {
			return x.explain(err)
		}
		return nil
	case err != nil:
		x.done()
		return x.explain(err)
	}
	x.done()
	x.to, x.began = received, received > 0
	return nil
}

// proceed begins to send the body, unless that has begun or is of no use.
func (x *exchange) proceed() {
	x.mu.Lock()
	begin := x.progress == waiting && !x.over && !x.head.Answered
	if begin {
		x.progress = sending
	}
	x.mu.Unlock()
	if begin {
		go x.stream()
	}
}

// stream sends the body.
func (x *exchange) stream() {
	defer x.body.Close()
	m, _ := x.client.chunks.Get().(*chunk)
	if m == nil {
		m = new(chunk)
	}
	defer func() {
		poison(m.b[:])
		x.client.chunks.Put(m)
	}()
	total, err := x.sendFile()
	if err != nil {
		x.stopped(err)
		return
	}
	for {
		n, end, err := x.read(m.b[chunkBefore:len(m.b)-chunkAfter], total)
		if err != nil {
			x.wrote(err)
			if !x.dropLeft() {
				x.abandon(x.fault(Local, BadBody, "reading the request's body for", err))
			}
			return
		}
		total += int64(n)
		b := x.framed(m, n, end)
		if end {
			x.last()
		}
		if _, err := x.conn.Write(b); err != nil {
			x.stopped(err)
			return
		}
		if end {
			x.done()
			return
		}
	}
}

// framed returns a piece of the body as it is sent. The piece has n bytes.
func (x *exchange) framed(m *chunk, n int, end bool) []byte {
	b := m.b[chunkBefore : chunkBefore+n]
	if x.length >= 0 {
		return b
	}
	if n > 0 {
		var line [chunkBefore]byte
		size := http1.AppendChunkSize(line[:0], n)
		at := chunkBefore - len(size)
		copy(m.b[at:], size)
		b = http1.AppendChunkEnd(m.b[at : chunkBefore+n])
	}
	if !end {
		return b
	}
	return http1.AppendHeadEnd(x.appendTrailer(http1.AppendLastChunk(b)))
}

// appendTrailer writes the trailer fields, which the body may have set while it was read.
func (x *exchange) appendTrailer(b []byte) []byte {
	for name, values := range x.request.Trailer {
		for _, v := range values {
			if name = http.CanonicalHeaderKey(name); http1.ValidToken(name) && http1.TrailerAllowed(name) {
				b = http1.AppendField(b, name, v)
			}
		}
	}
	return b
}

// read reads a piece of the body, as soon as there is one, and reports whether it is the last.
// One byte of p is for looking for the end.
func (x *exchange) read(p []byte, total int64) (n int, end bool, err error) {
	most := len(p) - 1
	for empty := 0; n == 0 && !end; empty++ {
		if n, end, err = x.body.Piece(p[:most], empty); err != nil {
			return 0, false, err
		}
	}
	if x.length < 0 {
		return n, end, nil
	}
	for empty := 0; !end && total+int64(n) == x.length; empty++ { // there should be no more
		var more int
		if more, end, err = x.body.Piece(p[n:n+1], empty); err != nil {
			return 0, false, err
		}
		n += more
	}
	if got := total + int64(n); got > x.length || end && got < x.length {
		return 0, false, lengthFault(x.length, got)
	}
	return n, end, nil
}

// last tells that the next write is the last.
func (x *exchange) last() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = sendingEnd
}

// done tells that all has been sent. If the response was quicker, the connection is ours to
// give back.
func (x *exchange) done() {
	x.wrote(nil)
	x.mu.Lock()
	x.progress = sent
	x.bound(x.client.ResponseHeaderTimeout)
	x.mu.Unlock()
	if x.streams() && x.claim() {
		if x.conn.SetWriteDeadline(time.Time{}) != nil {
			x.drop()
			return
		}
		x.giveBack()
	}
}

// stopped tells that sending has failed. The server may have answered all the same.
func (x *exchange) stopped(err error) {
	x.wrote(err)
	x.mu.Lock()
	x.failed = err
	x.bound(answerTime)
	x.mu.Unlock()
	x.dropLeft()
}

func (x *exchange) wrote(err error) {
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
}

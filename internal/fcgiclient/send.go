package fcgiclient

import (
	"time"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

const (
	// chunkSize is how much of a body is read and sent at a time.
	pieceSize = 32 << 10
)

// chunk is memory for a piece of a body: records around it, and one byte more, to look for
// the body's end.
type pieceBuffer struct {
	b [wire.HeaderSize + pieceSize + 1 + wire.HeaderSize]byte
}

// progress is how far a request has been sent.
type progress uint8

const (
	bodySending progress = iota
	bodyEnding           // the last write has begun
	bodySent
)

// send sends the request. A body that is not part of the message is sent by another
// goroutine, so that the response can come before all of it has gone. An error is returned if
// nothing at all was sent; else the application may have answered.
func (x *exchange) send() error {
	n, err := x.conn.Write(x.message.bytes)
	if x.options != nil && n > 0 {
		x.options.Sent = true
	}
	switch {
	case err != nil:
		x.sendFailed(err)
	case x.body == nil:
		x.sendDone()
	default:
		go x.sendBody()
	}
	if x.sentNothing = err != nil && n == 0; x.sentNothing {
		err = x.readError(err)
		x.abandon(err)
		return err
	}
	return nil
}

// stream sends the body.
func (x *exchange) sendBody() {
	defer x.body.Close()
	m, _ := x.client.pieceBuffers.Get().(*pieceBuffer)
	if m == nil {
		m = new(pieceBuffer)
	}
	defer func() {
		poison(m.b[:])
		x.client.pieceBuffers.Put(m)
	}()
	for total := int64(0); ; {
		n, end, err := x.readBody(m.b[wire.HeaderSize:len(m.b)-wire.HeaderSize], total)
		if err != nil {
			x.abandon(err)
			return
		}
		total += int64(n)
		b := m.b[:0]
		if n > 0 {
			wire.PutHeader(m.b[:], wire.Header{Type: wire.Stdin, ID: requestID, Length: uint16(n)})
			b = m.b[:wire.HeaderSize+n]
		}
		if end {
			x.sendingLast()
			b = wire.AppendStreamEnd(b, wire.Stdin, requestID)
		}
		if _, err := x.conn.Write(b); err != nil {
			x.sendFailed(err)
			return
		}
		if end {
			x.sendDone()
			return
		}
	}
}

// read reads a piece of the body, as soon as there is one, and reports whether it is the last.
// One byte of p is for looking for the end.
func (x *exchange) readBody(p []byte, total int64) (n int, end bool, err error) {
	most := len(p) - 1
	for empty := 0; n == 0 && !end; empty++ {
		if n, end, err = x.body.Piece(p[:most], empty); err != nil {
			return 0, false, err
		}
	}
	if x.bodyLength < 0 {
		return n, end, nil
	}
	for empty := 0; !end && total+int64(n) == x.bodyLength; empty++ { // there should be no more
		var more int
		if more, end, err = x.body.Piece(p[n:n+1], empty); err != nil {
			return 0, false, err
		}
		n += more
	}
	if got := total + int64(n); got > x.bodyLength || end && got < x.bodyLength {
		return 0, false, bodyLengthError(x.bodyLength, got)
	}
	return n, end, nil
}

// last tells that the next write is the last.
func (x *exchange) sendingLast() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = bodyEnding
}

// done tells that all has been sent. If the response was quicker, the connection is ours to
// give back.
func (x *exchange) sendDone() {
	x.mu.Lock()
	x.progress = bodySent
	x.startHeadTimeout(x.client.ResponseHeaderTimeout)
	left := x.leftToSender
	x.mu.Unlock()
	if left {
		if x.conn.SetWriteDeadline(time.Time{}) != nil {
			x.drop()
			return
		}
		x.conn.Keep()
	}
}

// stopped tells that sending has failed. The application may have answered all the same.
func (x *exchange) sendFailed(err error) {
	x.mu.Lock()
	x.sendErr = err
	x.startHeadTimeout(lateResponseTimeout)
	left := x.leftToSender
	x.mu.Unlock()
	if left {
		x.drop()
	}
}

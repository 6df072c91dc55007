package fcgiclient

import (
	"time"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

const (
	// pieceSize is the number of bytes of a body that are read and sent at a time.
	pieceSize = 32 << 10
)

// pieceBuffer holds a piece of a body and its record headers. One more byte detects a body that is
// too long.
type pieceBuffer struct {
	b [wire.HeaderSize + pieceSize + 1 + wire.HeaderSize]byte
}

// progress is how much of a request has been sent. It only increases.
type progress uint8

const (
	bodySending progress = iota // the message or the body is being sent
	bodyEnding                  // the last write has begun
	bodySent                    // the last write has returned
)

// send sends the request. A second goroutine sends a body that is not part of the message, so that
// the response may arrive before the body ends. send returns an error only if it has sent nothing.
// Otherwise the application may have responded.
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

// sendBody sends the body. It runs in a goroutine of its own.
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

// readBody reads a piece of the body, as soon as there is one, and reports whether it is the last.
// It leaves one byte of p to look for the end of the body.
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
	for empty := 0; !end && total+int64(n) == x.bodyLength; empty++ { // no byte may follow
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

// sendingLast records that the last write begins.
func (x *exchange) sendingLast() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = bodyEnding
}

// sendDone records that the request has been sent. If the response has already ended, sendDone
// returns the connection to the pool.
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

// sendFailed records that sending has failed. The application may have responded nevertheless.
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

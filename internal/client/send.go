package client

import (
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

const (
	// pieceSize is the number of bytes of a body that are read and sent at a time.
	pieceSize = 32 << 10
	// smallBody is the size up to which a body is sent together with the head.
	smallBody = 16 << 10
	// roomBefore and roomAfter are the room for framing around a piece, in any protocol.
	roomBefore = 9
	roomAfter  = 8
	// pieceBuffer is the size of a buffer for a piece and its framing. One more byte detects a body
	// that is too long.
	pieceBuffer = roomBefore + pieceSize + 1 + roomAfter
)

// progress is how much of a request has been sent. It only increases.
type progress uint8

const (
	bodyWaiting progress = iota // sending the body has not begun
	bodySending                 // sending the body has begun
	bodyEnding                  // the last write has begun
	bodySent                    // the last write has returned
)

// send sends the request. A second goroutine sends a body that is not in the scratch, so that the
// response may arrive before the body ends. send returns an error only if it has sent nothing:
// otherwise there may be a response.
func (x *exchange) send() error {
	if x.usesRawExchange() {
		return x.sendAndReceive(x.conn.raw)
	}
	first, isLast, err := x.encodeFirstPiece()
	if err != nil {
		x.traceSent(err)
		x.isUnprocessed = true
		return x.newError(Local, BadBody, whileGettingBody, err)
	}
	n, err := x.write(x.scratch.out)
	switch trace := x.trace; {
	case err != nil:
		x.sendFailed(err)
		if x.isUnprocessed = n == 0; x.isUnprocessed {
			return x.readError(err)
		}
		return nil
	case trace != nil && trace.WroteHeaders != nil:
		trace.WroteHeaders()
	}
	switch {
	case isLast, !x.streamsBody():
		x.body.Close()
		x.sendDone()
	case first > 0:
		go x.sendBody(first)
	case x.expectsContinue:
		x.startLater(x.startBody)
	default:
		x.startBody()
	}
	return nil
}

// startLater starts the body if no interim response arrives.
func (x *exchange) startLater(start func()) {
	if x.trace != nil && x.trace.Wait100Continue != nil {
		x.trace.Wait100Continue()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.bodyTimer = time.AfterFunc(x.client.settings.ExpectContinueTimeout, start)
	}
}

// encodeFirstPiece writes the first piece of a streamed body behind the head in the scratch, if a
// Read of the body need not wait. It returns the number of its bytes, and whether they are all. It
// does not look for the end of the body, which may arrive much later.
func (x *exchange) encodeFirstPiece() (n int64, isLast bool, err error) {
	if !x.streamsBody() || x.expectsContinue || x.getBody != nil || !x.body.hasInput() {
		return 0, false, nil
	}
	m := x.client.pieces.Get(pieceBuffer)
	defer x.client.pieces.Put(m)
	k, isLast, err := x.body.piece(m[roomBefore : roomBefore+smallBody])
	switch got := int64(k); {
	case err != nil:
		return 0, false, err
	case k == 0 && !isLast:
		return 0, false, nil
	case x.bodyLength >= 0 && (got > x.bodyLength || isLast && got < x.bodyLength):
		return 0, false, bodyLengthError(x.bodyLength, got)
	}
	x.scratch.out = append(x.scratch.out, x.client.protocol.framePiece(x, m, k, isLast)...)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.progress = bodySending; isLast {
		x.progress = bodyEnding
	}
	return int64(k), isLast, nil
}

// usesRawExchange reports whether rawExchange sends the request and receives the response.
func (x *exchange) usesRawExchange() bool {
	return x.conn.raw != nil && x.conn.pending == nil && !x.streamsBody() && x.trace == nil &&
		x.client.settings.ResponseHeaderTimeout <= 0
}

// sendAndReceive sends a request that is whole in the scratch, and receives the first bytes of the
// response.
func (x *exchange) sendAndReceive(t *rawExchange) error {
	s, traffic := x.scratch, &x.conn.traffic
	traffic.sent.Add(int64(len(s.out))) // as write does
	n, received, err := t.sendReceive(s.out, s.in, !x.openedConn)
	traffic.received.Add(int64(received))
	if n < len(s.out) {
		traffic.sent.Add(int64(n - len(s.out)))
	}
	if err == nil && n < len(s.out) { // the socket buffer is full
		var more int
		more, err = x.write(s.out[n:])
		n += more
	}
	switch {
	case n < len(s.out):
		x.sendFailed(err)
		if x.isUnprocessed = n == 0; x.isUnprocessed {
			return x.readError(err)
		}
		return nil
	case err != nil:
		x.sendDone()
		return x.readError(err)
	}
	x.sendDone()
	s.filled, x.receivedAny = received, received > 0
	return nil
}

// startBody starts sending the body, unless that has started or the response has arrived.
func (x *exchange) startBody() {
	if x.beginBody() {
		go x.sendBody(0)
	}
}

// beginBody records that sending the body begins. It reports false if it must not.
func (x *exchange) beginBody() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.progress != bodyWaiting || x.ended || x.headIsOver {
		return false
	}
	x.progress = bodySending
	return true
}

// sendBody sends the body, of which total bytes were sent before. It runs in a goroutine of its
// own.
func (x *exchange) sendBody(total int64) {
	defer x.body.Close()
	m := x.client.pieces.Get(pieceBuffer)
	defer x.client.pieces.Put(m)
	fileBytes, err := x.sendFile()
	total += fileBytes
	x.conn.traffic.sent.Add(fileBytes)
	if err != nil {
		x.sendFailed(err)
		return
	}
	for {
		n, end, err := x.readBody(m[roomBefore:len(m)-roomAfter], total)
		if err != nil {
			x.traceSent(err)
			if !x.dropIfLeft() {
				x.abandon(x.newError(Local, BadBody, whileGettingBody, err))
			}
			return
		}
		total += int64(n)
		b := x.client.protocol.framePiece(x, m, n, end)
		if end {
			x.mu.Lock()
			x.progress = bodyEnding
			x.mu.Unlock()
		}
		if _, err := x.write(b); err != nil {
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
	for n == 0 && !end {
		if n, end, err = x.body.piece(p[:most]); err != nil {
			return 0, false, err
		}
	}
	if x.bodyLength < 0 {
		return n, end, nil
	}
	for !end && total+int64(n) == x.bodyLength { // no byte may follow
		var more int
		if more, end, err = x.body.piece(p[n : n+1]); err != nil {
			return 0, false, err
		}
		n += more
	}
	if got := total + int64(n); got > x.bodyLength || end && got < x.bodyLength {
		return 0, false, bodyLengthError(x.bodyLength, got)
	}
	return n, end, nil
}

// sendDone records that the request has been sent. If the response has already ended, sendDone
// returns the connection to the pool.
func (x *exchange) sendDone() {
	x.traceSent(nil)
	x.mu.Lock()
	x.progress = bodySent
	x.startHeadTimeout(x.client.settings.ResponseHeaderTimeout)
	x.mu.Unlock()
	if x.streamsBody() && x.claimConn() {
		x.keepConn()
	}
}

// sendFailed records that sending has failed. The server may have responded nevertheless.
func (x *exchange) sendFailed(err error) {
	x.traceSent(err)
	x.mu.Lock()
	x.sendErr = err
	x.startHeadTimeout(lateResponseTimeout)
	x.mu.Unlock()
	x.dropIfLeft()
}

func (x *exchange) traceSent(err error) {
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
}

// minSendfile is the size from which the kernel sends a file (sendfile, splice). Compared with
// copying it piece by piece, that takes 0.6 of the CPU time, including the server's, at 256 KB and
// at 10 MB (BenchmarkFileBody).
const minSendfile = 4 * pieceSize

// sendFile makes the kernel send a body that is a file, except for its last piece. That piece is
// sent like other bodies, after a check that nothing follows it. sendFile returns the number of
// bytes sent. If the file is shorter than its ContentLength, the last piece shows that.
func (x *exchange) sendFile() (int64, error) {
	file, isFile := x.body.body.(*os.File)
	nc, isTCP := x.conn.Conn.(*net.TCPConn)
	isHTTP := x.client.http2 != nil // it sends a body of known length as it is
	if !isFile || !isTCP || !isHTTP || x.bodyLength < minSendfile {
		return 0, nil
	}
	return nc.ReadFrom(io.LimitReader(file, x.bodyLength-pieceSize))
}

// maxEmptyReads is the number of consecutive Reads that may return neither bytes nor an error.
const maxEmptyReads = 100

// requestBody is a request's body. It can be closed while it is read, and is closed once.
type requestBody struct {
	body   io.ReadCloser
	closed atomic.Bool
	empty  int // the number of consecutive Reads that have returned nothing
}

// Close closes the body unless it is closed. It ignores the error, which does not matter to a
// request. b may be nil.
func (b *requestBody) Close() {
	if b != nil && !b.closed.Swap(true) {
		_ = b.body.Close()
	}
}

// closeLater closes the body in another goroutine, because Close may wait for a Read.
func (b *requestBody) closeLater() {
	if b != nil && !b.closed.Load() {
		go b.Close()
	}
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.empty++; n > 0 {
		b.empty = 0
	} else if err == nil && b.empty == maxEmptyReads {
		err = io.ErrNoProgress
	}
	return n, err
}

// piece reads from the body, and reports whether the body has ended. Further Reads
// follow if they need not wait, so that the last piece of a body is sent as such.
func (b *requestBody) piece(p []byte) (n int, end bool, err error) {
	n, err = b.Read(p)
	for more := n; err == nil && more > 0 && n < len(p) && b.hasInput(); n += more {
		more, err = b.Read(p[n:])
	}
	if err == io.EOF { //nolint:errorlint // a wrapped io.EOF is an error
		return n, true, nil
	}
	return n, false, err
}

// readInto reads the body until its end, or until p is full.
func (b *requestBody) readInto(p []byte) (n int, err error) {
	for end := false; n < len(p) && !end && err == nil; {
		var k int
		k, end, err = b.piece(p[n:])
		n += k
	}
	return n, err
}

// hasInput reports whether the body is known to return from a Read at once.
func (b *requestBody) hasInput() bool {
	body, ok := b.body.(connection.InputReporter)
	return ok && body.HasInput()
}

func bodyLengthError(want, got int64) error {
	if got < want {
		return fmt.Errorf("http: ContentLength=%d with Body length %d", want, got)
	}
	return fmt.Errorf("http: ContentLength=%d with Body length %d or more", want, got)
}

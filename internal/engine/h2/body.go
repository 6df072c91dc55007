package h2

import (
	"bytes"
	"io"
	"net/http"
	"os"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poison"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// ReadBody implements exchange.Source. It returns bytes of both windows to the client.
func (st *Stream) ReadBody(b *exchange.Body, p []byte) (int, error) {
	s := st.session
	for {
		s.mu.Lock()
		if st.body.Len() > 0 {
			n := copy(p, st.body.Bytes())
			replies := st.consumeLocked(n)
			s.mu.Unlock()
			if replies && !st.isOnTurn() {
				s.Flush()
			}
			return n, nil
		}
		err, trailer := st.readErrorLocked(), st.trailer
		wake, until := st.readWake, st.readDeadline
		if wake == nil {
			st.readWake = make(chan struct{}, 1)
			wake = st.readWake
		}
		s.mu.Unlock()
		switch {
		case err == io.EOF: //nolint:errorlint // made here
			copyTrailer(b, trailer)
			return 0, io.EOF
		case err == errShortBody, err == http.ErrBodyReadAfterClose: //nolint:errorlint // the client has not left
			return 0, err
		case err != nil: // later calls return the same error
			st.CloseBody()
			return 0, b.ReadFailed(err)
		}
		b.BoundRead() // a new deadline ends the wait
		st.MayBlock()
		s.Flush()
		awaitUntil(wake, until)
	}
}

// readErrorLocked returns why nothing can be read now, or nil if more may arrive.
func (st *Stream) readErrorLocked() error {
	switch {
	case st.dropsBody:
		return http.ErrBodyReadAfterClose
	case st.inEnded:
		if st.declared >= 0 && st.received != st.declared {
			return errShortBody
		}
		return io.EOF
	case st.isClosed:
		return st.err
	case exchange.IsPast(st.readDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// consumeLocked removes n bytes from the body's buffer and returns them to the client's windows. It
// reports whether it has queued a frame.
func (st *Stream) consumeLocked(n int) (queued bool) {
	s := st.session
	poison.Fill(st.body.Next(n))
	if st.isClosed {
		s.keptBodies -= n
		return false
	}
	queued = s.returnWindowLocked(n)
	if !st.inEnded && s.updateWindowLocked(st.id, st.window.Return(n)) {
		s.ledger.Credit(1)
		queued = true
	}
	return queued
}

// returnWindowLocked returns n bytes to the connection's window. It reports whether it has queued a
// frame.
func (s *Session) returnWindowLocked(n int) (queued bool) {
	return s.updateWindowLocked(0, s.window.Return(n))
}

func (s *Session) updateWindowLocked(id, more uint32) (queued bool) {
	if more > 0 {
		s.output.reply(wire.AppendWindowUpdate(s.output.out, id, more))
	}
	return more > 0
}

// discardBodyLocked drops what has arrived of a body that nobody reads any more. It reports whether
// it has queued a frame.
func (s *Session) discardBodyLocked(st *Stream) (queued bool) {
	if unread := st.body.Len(); st.isClosed {
		s.keptBodies -= unread
	} else {
		queued = s.returnWindowLocked(unread)
	}
	poison.Fill(st.body.Bytes())
	st.body = bytes.Buffer{}
	return queued
}

// CloseBody implements exchange.Stream.
func (st *Stream) CloseBody() {
	s := st.session
	s.mu.Lock()
	queued := s.discardBodyLocked(st)
	st.dropsBody = true
	exchange.Signal(st.readWake)
	s.mu.Unlock()
	if queued && !st.isOnTurn() {
		s.Flush()
	}
}

// closeBodyLocked is called when a stream ends before its handler has. As with net/http, the
// handler can still read a body that has arrived whole. Its bytes are returned to the client's
// window at once, although the handler has yet to read them. Such bodies together may take as much
// memory as the connection's window.
func (s *Session) closeBodyLocked(st *Stream) {
	unread := st.body.Len()
	if !st.inEnded || s.keptBodies+unread > int(s.config.connWindow) {
		s.discardBodyLocked(st)
		st.inEnded = false
		return
	}
	s.returnWindowLocked(unread)
	s.keptBodies += unread
}

// endInputLocked ends the request's body. If the response is complete, that ends the stream.
func (s *Session) endInputLocked(st *Stream) {
	if st.isClosed { // the client need not send all of the body
		if s.streams[st.id] == st {
			s.dropStreamLocked(st, errStreamClosed)
		}
		return
	}
	st.inEnded = true
	exchange.Signal(st.readWake)
}

func (st *Stream) storeLocked(data []byte) {
	st.body.Write(data)
	exchange.Signal(st.readWake)
}

// copyTrailer sets those fields of Request.Trailer that the client has announced.
func copyTrailer(b *exchange.Body, trailer http.Header) {
	r := b.Exchange.HandlerRequest()
	for name, values := range trailer {
		if _, announced := r.Trailer[name]; announced {
			r.Trailer[name] = values
		}
	}
}

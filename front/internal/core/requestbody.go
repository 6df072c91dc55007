package core

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/internal/connection"
)

// defaultMaxBody is nginx's default.
const defaultMaxBody = 1 << 20

// checkLength rejects requests whose Content-Length is too large. As in nginx a named location
// takes what the location before it has accepted.
func (x *Exchange) checkLength() Outcome {
	most := x.Loc.MaxBody
	if most < 0 || x.Request.ContentLength <= most || x.Method != x.Request.Method || x.entry == atNamed {
		return Proceed
	}
	x.Errorf(errorlog.LevelError, "client intended to send too large body: %d bytes", x.Request.ContentLength)
	return x.Fail(http.StatusRequestEntityTooLarge)
}

// limitBody bounds the length and time of reading the request's body.
func (x *Exchange) limitBody() Outcome {
	if x.Request.Body == nil || x.Request.Body == http.NoBody {
		return Proceed
	}
	if out := x.checkLength(); out != Proceed {
		return out
	}
	b := x.Body
	switch {
	case b != nil && x.Received != nil: // an upstream request that has failed may still read it
		return Proceed
	case b == nil:
		b = &limitedBody{x: x, Original: x.Request.Body,
			controller: http.NewResponseController(x.Response.ResponseWriter)}
		b.Served, _ = b.Original.(connection.RequestBody)
		x.Body, x.Request.Body = b, b
	}
	b.ReadCloser, b.timeout = b.Original, readTimeout(x.Request, x.Loc.bodyTimeout)
	if most := x.Loc.MaxBody; most >= 0 && x.Request.ContentLength < 0 {
		b.ReadCloser = http.MaxBytesReader(x.Response.ResponseWriter, b.Original, most)
	}
	return Proceed
}

type limitedBody struct {
	io.ReadCloser
	Original      io.ReadCloser // the server's
	x             *Exchange
	controller    *http.ResponseController
	timeout       time.Duration          // 0 means none
	deadlineSetAt time.Time              // zero if no deadline is set
	Served        connection.RequestBody // the original, if it is one
	received      atomic.Int64           // the bytes that were read
	framing       atomic.Int64           // their chunk framing, if the server reports it
	IsComplete    atomic.Bool            // it was read to its end
}

// readTimeout returns 0 if the server has a ReadTimeout, else timeout.
func readTimeout(r *http.Request, timeout time.Duration) time.Duration {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return 0
	}
	return timeout
}

// Read reads, and records the status to respond with after an error.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.timeout > 0 {
		if now := time.Now(); now.Sub(b.deadlineSetAt) >= b.timeout/deadlineSlack {
			b.deadlineSetAt = now
			if b.controller.SetReadDeadline(now.Add(b.timeout)) != nil {
				b.timeout = 0
			}
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.received.Add(int64(n))
	if b.Served != nil {
		if n, ok := b.Served.FramingLength(); ok {
			b.framing.Store(n)
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			b.IsComplete.Store(true)
		}
		// a deadline would end the server's watch for the client's departure
		if b.timeout > 0 && errors.Is(err, io.EOF) {
			_ = b.controller.SetReadDeadline(time.Time{})
			b.timeout = 0
		}
		// 400 may be the content's fault: it has closed the body
		if status := BodyStatus(err); status != http.StatusBadRequest {
			b.x.BodyStatus.CompareAndSwap(0, status)
		}
	}
	return n, err
}

// HasInput implements connection.InputReporter.
func (b *limitedBody) HasInput() bool { return b.Served != nil && b.Served.HasInput() }

// BodyStatus returns the status for an error of reading a request's body, 0 for io.EOF.
func BodyStatus(err error) int32 {
	var tooLong *http.MaxBytesError
	var notStored *fs.PathError
	switch {
	case errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.As(err, &notStored):
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

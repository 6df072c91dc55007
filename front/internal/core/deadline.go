package core

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/internal/connection"
)

const (
	// DefaultTimeout is nginx's default for most timeouts.
	DefaultTimeout = 60 * time.Second
	// maxPerDeadline bounds the bytes that are sent under one deadline: a client that receives less
	// within a timeout is disconnected. nginx counts each byte as progress, and so does a server
	// that has a connection.SendTimer.
	maxPerDeadline = 128 << 10
	// A deadline may be too early by this fraction of its timeout, which saves setting it for each
	// read and write.
	deadlineSlack = 8
)

// limitByServer lets the server apply the location's timeouts to the response, and reports whether
// it bounds the time between two writes.
func (x *Exchange) limitByServer() bool {
	x.setLinger()
	// A type parameter costs each request a search in the runtime's table of interfaces.
	v, ok := x.Response.ResponseWriter.(connection.SendTimer)
	if !ok {
		v, ok = serverAs[connection.SendTimer](x)
	}
	return ok && v.SetSendTimeout(x.Loc.sendTimeout) == nil
}

// serverAs returns the server's writer as an optional interface.
func serverAs[T any](x *Exchange) (t T, ok bool) {
	for w := x.Response.ResponseWriter; ; {
		switch v := w.(type) {
		case T:
			return v, true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return t, false
		}
	}
}

// setLinger bounds how long the server reads a connection after its last response, because the
// client may still be sending: in all, and without data. Requests without a body rarely need it.
func (x *Exchange) setLinger() {
	const defaultTime, defaultLingerTimeout = 30 * time.Second, 5 * time.Second // as in nginx
	s := x.Loc.Settings
	always := s.Linger == "always" // also if the client has sent all of the request
	if x.Request.ProtoMajor > 1 || x.ClientRequest().ContentLength == 0 && !always {
		return
	}
	most := cmp.Or(s.LingerTime, defaultTime)
	if s.Linger == "off" {
		most = 0 // closes the connection at once
	}
	if v, ok := serverAs[connection.ResponseWriter](x); ok {
		_ = v.SetLinger(most, cmp.Or(s.LingerTimeout, defaultLingerTimeout), always) // it fails only after the response
	}
}

// sendDeadline bounds the time between two writes of a response, for servers that do not. It
// extends the deadline when something is written. The zero value has no bound.
type sendDeadline struct {
	timeout time.Duration
	setAt   time.Time // zero if no deadline is set
}

// newSendDeadline starts with the response.
func newSendDeadline(x *Exchange) sendDeadline {
	if x.limitByServer() || x.Loc.deadline <= 0 {
		return sendDeadline{}
	}
	b := sendDeadline{timeout: x.Loc.deadline}
	if x.Request.ProtoMajor == 1 { // the server may send the header before the first write
		b.extend(&x.Response)
	}
	return b
}

// startWrite extends the deadline, and returns how many of n bytes may be sent under it.
func (b *sendDeadline) startWrite(w *Writer, n int64) int64 {
	if b.timeout > 0 {
		n = min(n, maxPerDeadline)
		b.extend(w)
	}
	return n
}

// clear removes the deadline after a write, except in HTTP/1. In HTTP/2 a deadline ends the stream
// even if nothing waits to be sent.
func (b *sendDeadline) clear(w *Writer) {
	if !b.setAt.IsZero() && w.X.Request.ProtoMajor != 1 {
		b.setAt = time.Time{}
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(b.setAt)
	}
}

// extend sets the deadline if that is due.
func (b *sendDeadline) extend(w *Writer) {
	if b.timeout <= 0 {
		return
	}
	now := time.Now()
	if now.Sub(b.setAt) < b.timeout/deadlineSlack {
		return
	}
	if s, ok := w.X.Request.Context().Value(http.ServerContextKey).(*http.Server); b.setAt.IsZero() && ok &&
		s.WriteTimeout > 0 {
		b.timeout = 0 // the server has a bound
		return
	}
	b.setAt = now
	if http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(b.timeout)) != nil {
		b.timeout = 0 // the server does not support it
	}
}

// rateLimiter bounds the rate of a response after its first bytes.
type rateLimiter struct {
	*fetch.Pace
	after int64 // bytes that are not limited
}

// StartLimits starts the limits of the body's rate and of the time between two writes.
func (w *Writer) StartLimits() {
	r := w.X.Loc.Rules
	w.deadline = newSendDeadline(w.X)
	if w.X.LimitRate == "" && r.rate.Empty() {
		return
	}
	rate, err := grammar.ParseOffset(w.X.LimitRate)
	if err != nil { // as in nginx an invalid rate is ignored
		rate, err = grammar.ParseOffset(r.rate.Eval(w.X))
	}
	if err == nil && rate > 0 {
		after, _ := grammar.ParseOffset(r.rateAfter.Eval(w.X))
		w.pace = &rateLimiter{fetch.NewPace(rate), min(after, 1<<62)}
	}
}

// wait waits until something may be sent, and returns how much. It ends with the request.
func (p *rateLimiter) wait(w *Writer) (int64, error) {
	for {
		allowed, rest := p.Allowed()
		if most := p.after + allowed - w.Sent; most > 0 {
			return most, nil
		}
		w.deadline.extend(w)
		// the client receives what it may before the pause
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		w.deadline.clear(w)
		if !w.X.Wait(rest) {
			return 0, w.X.Request.Context().Err()
		}
	}
}

// limitRate is $limit_rate as it was set, in bytes.
func limitRate(x *Exchange) string {
	rate, _ := grammar.ParseOffset(x.LimitRate) // setLimitRate accepts only valid ones
	return strconv.FormatInt(rate, 10)
}

// setLimitRate sets $limit_rate. As in nginx an invalid value leaves it unchanged.
func setLimitRate(x *Exchange, value string) {
	if _, err := grammar.ParseOffset(value); err != nil {
		x.Errorf(errorlog.LevelError, "invalid $limit_rate %q", errorlog.Truncate(value))
		return
	}
	x.LimitRate = value
}

package proxy

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

// receiveBody receives the request's body, unless it is streamed. As in nginx a body that the
// upstream does not receive is read, too: the client gets its timeout and its limit of length.
func (p *proxy) receiveBody(x *core.Exchange) core.Outcome {
	if x.Received != nil || !hasBody(x) {
		return core.Proceed
	}
	isForwarded := p.body == nil && !p.from.NoBody
	if p.from.StreamRequest && isForwarded && x.Loc.Settings.BodyFile == "" && !bodyHasArrived(x) {
		b, err := streamBody(x)
		if err != nil {
			return failBody(x, err)
		}
		x.Received = b
		return core.Proceed
	}
	return receiveWhole(x)
}

func receiveWhole(x *core.Exchange) core.Outcome {
	var b *fetch.Body
	var err error
	if s := x.Loc.Settings; s.BodyFile != "" {
		b, err = fetch.ReadBodyFile(x.Request.Body, x.Request.ContentLength, s.BodyDir, s.BodyFile == "on")
	} else {
		b, err = fetch.ReadBody(x.Request.Body, x.Request.ContentLength, bodyBuffer(s))
	}
	if err != nil {
		b.Close()
		return failBody(x, err)
	}
	if x.Received = b; x.Request.ContentLength < 0 { // its length is known now
		r := x.Request.WithContext(x.Request.Context())
		r.ContentLength, r.TransferEncoding = b.Length(), nil
		x.Request = r
	}
	return core.Proceed
}

// failBody responds after an error of reading the request's body, unless the client has gone.
func failBody(x *core.Exchange, err error) core.Outcome {
	level := errorlog.LevelInfo // the client has caused it
	if core.BodyStatus(err) == http.StatusInternalServerError {
		level = errorlog.LevelCrit // the disk has
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		x.Errorf(errorlog.LevelError, "client intended to send too large chunked body: %d+1 bytes", tooLong.Limit)
	} else {
		x.Errorf(level, "reading the request's body: %v", err)
	}
	if x.Request.Context().Err() != nil {
		return x.Abort(http.StatusBadRequest)
	}
	return x.Fail(int(cmp.Or(x.BodyStatus.Load(), core.BodyStatus(err))))
}

// goneStatus is the status to log for a client that has gone: as in nginx 400 while its body, which
// is forwarded, is incomplete.
func goneStatus(x *core.Exchange) int {
	if x.Received.IsStreamed() && !x.Body.IsComplete.Load() {
		return http.StatusBadRequest
	}
	return nginxstatus.ClientGone
}

func bodyBuffer(s *conf.Settings) int64 { return cmp.Or(s.BodyBuffer, fetch.DefaultBodyBuffer) }

// bodyHasArrived reports whether a body that would be streamed has arrived whole and stays in
// memory. As in nginx it is then received before: it can be sent again, together with the head.
func bodyHasArrived(x *core.Exchange) bool {
	if x.Request.ContentLength > bodyBuffer(x.Loc.Settings) || x.Request.ContentLength < 0 &&
		x.Request.ProtoMajor > 1 {
		return false // an HTTP/2 body of unknown length may be larger than the buffer
	}
	return x.Body.Served != nil && x.Body.Served.HasWhole()
}

// hasBody reports whether the request has a body. Error pages are requested without it.
func hasBody(x *core.Exchange) bool {
	return x.Request.Body != nil && x.Request.Body != http.NoBody && x.Request.ContentLength != 0 &&
		x.Method == x.Request.Method
}

// upstreamBody returns the body for the upstream, or nil. A GET after an internal redirect does
// without a body that another upstream has received in part. The rest is dropped, as in nginx.
func (p *proxy) upstreamBody(x *core.Exchange) *fetch.Body {
	switch {
	case p.body != nil:
		return fetch.NewBody(p.body.Eval(x))
	case p.from.NoBody || x.Method != x.Request.Method, x.Method == http.MethodGet && !x.Received.IsAvailable():
		return nil
	}
	return x.Received
}

// streamBody returns a body that forwards the request's while it arrives.
func streamBody(x *core.Exchange) (*fetch.Body, error) {
	b, controller := x.Body, http.NewResponseController(x.Response.ResponseWriter)
	// Without full duplex a response waits until the client has sent everything or times out. A
	// server that does not support it lets the response wait.
	_ = controller.EnableFullDuplex()
	if limit := x.Loc.MaxBody; limit >= 0 && x.Request.ContentLength < 0 {
		// without the writer, to whose header it would write from another goroutine
		b.ReadCloser = http.MaxBytesReader(nil, b.Original, limit)
	}
	return fetch.StreamBody(b, x.Request.ContentLength, controller)
}

package front

import (
	"cmp"
	"io"
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/connection"
)

// receiveBody receives the request's body, unless it is streamed. As in nginx a body that the
// upstream does not receive is read, too: the client gets its timeout and its limit of length.
func (p *proxy) receiveBody(x *exchange) outcome {
	if x.proxy.clientBody != nil || !hasBody(x) {
		return proceed
	}
	isForwarded := p.body == nil && !p.from.NoBody
	if p.from.StreamRequest && isForwarded && x.loc.settings.BodyFile == "" && !x.bodyHasArrived() {
		b, err := streamBody(x)
		if err != nil {
			return x.failBody(err)
		}
		x.proxy.clientBody = b
		return proceed
	}
	return x.receiveWhole()
}

// receiveWhole receives the request's body completely. The exchange has a proxyState.
func (x *exchange) receiveWhole() outcome {
	var b *fetch.Body
	var err error
	if s := x.loc.settings; s.BodyFile != "" {
		b, err = fetch.ReadBodyFile(x.r.Body, x.r.ContentLength, s.BodyDir, s.BodyFile == "on")
	} else {
		b, err = fetch.ReadBody(x.r.Body, x.r.ContentLength, bodyBuffer(s))
	}
	if err != nil {
		b.Close()
		return x.failBody(err)
	}
	if x.proxy.clientBody = b; x.r.ContentLength < 0 { // its length is known now
		r := x.r.WithContext(x.r.Context())
		r.ContentLength, r.TransferEncoding = b.Length(), nil
		x.r = r
	}
	return proceed
}

// failBody responds after an error of reading the request's body, unless the client has gone.
func (x *exchange) failBody(err error) outcome {
	level := levelInfo // the client has caused it
	if bodyStatus(err) == http.StatusInternalServerError {
		level = levelCrit // the disk has
	}
	x.errorf(level, "reading the request's body: %v", err)
	if x.r.Context().Err() != nil {
		x.endWithoutResponse(http.StatusBadRequest)
		panic(http.ErrAbortHandler)
	}
	return x.fail(int(cmp.Or(x.bodyStatus.Load(), bodyStatus(err))))
}

// goneStatus is the status to log for a client that has gone: as in nginx 400 while its body, which
// is forwarded, is incomplete.
func (x *exchange) goneStatus() int {
	if x.hasReceived() && x.proxy.clientBody.IsStreamed() && x.body != nil && !x.body.isComplete.Load() {
		return http.StatusBadRequest
	}
	return statusClientGone
}

// bodyBuffer returns the length up to which bodies stay in memory.
func bodyBuffer(s *conf.Settings) int64 { return cmp.Or(s.BodyBuffer, fetch.DefaultBodyBuffer) }

// bodyHasArrived reports whether a body that would be streamed has arrived whole and stays in
// memory. As in nginx it is then received before: it can be sent again, together with the head.
func (x *exchange) bodyHasArrived() bool {
	if x.body == nil || x.r.ContentLength > bodyBuffer(x.loc.settings) || x.r.ContentLength < 0 && x.r.ProtoMajor > 1 {
		return false // an HTTP/2 body of unknown length may be larger than the buffer
	}
	return x.body.served != nil && x.body.served.HasWhole()
}

// bodyHasInput reports whether a part of the body has arrived, so that reading it does not wait.
func (x *exchange) bodyHasInput() bool {
	if x.body == nil {
		return false
	}
	b, ok := x.body.original.(connection.InputReporter)
	return ok && b.HasInput()
}

// requestBodyValue is $request_body: the body if it was received completely and is in memory.
func requestBodyValue(x *exchange) string {
	if !x.hasReceived() {
		return ""
	}
	return x.proxy.clientBody.Text()
}

// hasBody reports whether the request has a body. Error pages are requested without it.
func hasBody(x *exchange) bool {
	return x.r.Body != nil && x.r.Body != http.NoBody && x.r.ContentLength != 0 && x.method == x.r.Method
}

// requestBodyFile is $request_body_file.
func requestBodyFile(x *exchange) string {
	if !x.hasReceived() {
		return ""
	}
	return x.proxy.clientBody.FileName()
}

// upstreamBody returns the body for the upstream, or nil. A GET after an internal redirect does
// without a body that another upstream has received in part. The rest is dropped, as in nginx.
func (p *proxy) upstreamBody(x *exchange) *fetch.Body {
	switch {
	case p.body != nil:
		return fetch.NewBody(p.body.eval(x))
	case p.from.NoBody || x.proxy.clientBody == nil || x.method != x.r.Method,
		x.method == http.MethodGet && !x.proxy.clientBody.IsAvailable():
		return nil
	}
	return x.proxy.clientBody
}

// streamBody returns a body that forwards the request's while it arrives.
func streamBody(x *exchange) (*fetch.Body, error) {
	from, controller := io.Reader(x.r.Body), http.NewResponseController(x.w.ResponseWriter)
	// Without full duplex a response waits until the client has sent everything or times out. A
	// server that does not support it lets the response wait.
	_ = controller.EnableFullDuplex()
	if b := x.body; b != nil {
		if limit := x.loc.limits.maxBody; limit >= 0 && x.r.ContentLength < 0 {
			// http.MaxBytesReader would write to the response's header from another goroutine.
			b.ReadCloser = &lengthLimitedBody{ReadCloser: b.original, remaining: limit, limit: limit}
		}
		from = b
	}
	return fetch.StreamBody(from, x.bodyHasInput, x.r.ContentLength, controller)
}

// lengthLimitedBody returns *http.MaxBytesError after limit bytes.
type lengthLimitedBody struct {
	io.ReadCloser
	remaining, limit int64
}

func (b *lengthLimitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1] // one byte more exceeds the limit
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.remaining {
		n, err = int(b.remaining), &http.MaxBytesError{Limit: b.limit}
	}
	b.remaining -= int64(n)
	return n, err
}

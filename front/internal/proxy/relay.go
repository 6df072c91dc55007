package proxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/nginxstatus"
	"github.com/tarehq/tare/internal/wire/http1"
)

// relay sends a response that has a body.
func (p *proxy) relay(x *core.Exchange, resp *http.Response) core.Outcome {
	if body := fetch.CompleteBody(resp); body != nil {
		p.sendHead(x, resp)
		_, err := body.WriteTo(&x.Response)
		abortOnError(err)
		return core.Responded
	}
	if p.isStreamed(resp.Header) {
		p.sendHead(x, resp)
		(&stream{proxy: p, x: x, resp: resp, body: resp.Body}).begin()
		return core.Responded
	}
	b := x.Plan.State.Buffers.Get(fetch.BufferSize)
	n, err := fill(b, resp.Body, keepsConnectionByLength(x.Request, resp))
	isComplete := errors.Is(err, io.EOF)
	switch {
	case err == nil: // more follows, maybe much later
		p.sendHead(x, resp)
		p.pump(x, resp, b[:n])
		return core.Responded
	case isComplete:
		_ = resp.Body.Close()
	case x.Request.Context().Err() != nil && !p.from.IgnoreAbort:
		return x.Abort(nginxstatus.ClientGone)
	}
	p.sendHead(x, resp)
	_, writeErr := x.Response.Write(b[:n])
	abortOnError(writeErr)
	x.Plan.State.Buffers.Put(b)
	if isComplete {
		p.sendTrailer(x, resp)
	} else if x.Response.WithheldStatus == 0 { // else the request's body was rejected
		abortResponse(x, err)
	}
	return core.Responded
}

func (p *proxy) isStreamed(header http.Header) bool {
	if buffering := header["X-Accel-Buffering"]; len(buffering) > 0 && p.response.mayBuffer {
		switch strings.ToLower(buffering[0]) {
		case "no":
			return true
		case "yes":
			return false
		}
	}
	return p.from.Stream
}

// sendFields sends the head of a response, without announcing a trailer section.
func (p *proxy) sendFields(x *core.Exchange, resp *http.Response) {
	if raw := &x.Response.Raw; raw.Text != nil {
		x.Response.WriteRawHeader(resp.StatusCode, raw.Text, raw.Fields, nil)
		return
	}
	p.response.copyHeader(x, resp.StatusCode, x.Response.Header(), resp.Header)
	x.Response.WriteHeader(resp.StatusCode)
}

func (p *proxy) sendHead(x *core.Exchange, resp *http.Response) {
	var names []string
	for name := range resp.Trailer {
		if p.response.fate(name)&fieldIsDropped == 0 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		x.Response.Header()["Trailer"] = []string{strings.Join(names, ", ")}
	}
	p.sendFields(x, resp)
}

// sendTrailer sends the trailer section, also fields that Trailer did not announce.
func (p *proxy) sendTrailer(x *core.Exchange, resp *http.Response) {
	if len(resp.Trailer) == 0 {
		return
	}
	header := x.Response.Header()
	announced := header["Trailer"]
	for name, values := range resp.Trailer {
		switch {
		case p.response.fate(name)&fieldIsDropped != 0:
		case http1.HasToken(announced, name):
			header[name] = values
		default:
			header[http.TrailerPrefix+name] = values
		}
	}
}

// keepsConnectionByLength reports whether the length of a body, which only its end shows, decides
// whether the client's connection is kept: HTTP/1.0 has no other way.
func keepsConnectionByLength(r *http.Request, resp *http.Response) bool {
	return resp.ContentLength < 0 && !r.ProtoAtLeast(1, 1) && !r.Close
}

// fill reads until it has the whole body (io.EOF) or b is full. Unless waits is set, it also stops
// when the upstream pauses.
func fill(b []byte, from io.Reader, waits bool) (n int, err error) {
	for err == nil && (n == 0 || n < len(b) && (waits || cache.HasInput(from))) {
		var m int
		m, err = from.Read(b[n:])
		n += m
	}
	return n, err
}

// abortOnError aborts the response after an error of writing to the client, since the rest is of no
// use. The memory that was written must not be reused: net/http's HTTP/2 may still read it in
// another goroutine after the client has reset the stream.
func abortOnError(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// pump sends a response while the upstream sends it. A goroutine receives at the upstream's speed,
// into memory and then into a file. The body begins with first, which is in a buffer of the plan.
func (p *proxy) pump(x *core.Exchange, resp *http.Response, first []byte) {
	most := max(cmp.Or(p.from.BufferBytes, defaultMaxBuffered)/fetch.BufferSize, 2)
	q := fetch.NewQueue(resp.Body, first, &x.Plan.State.Buffers, int(most), cmp.Or(p.from.MaxSpool, defaultMaxSpooled))
	defer q.Close()
	control := http.NewResponseController(&x.Response)
	for {
		piece, err := q.Next(func() { _ = control.Flush() })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			abortResponse(x, err)
		}
		if _, err = x.Response.Write(piece); err != nil {
			q.Forget()
		}
		abortOnError(err)
	}
	if err := q.SpoolError(); err != nil {
		x.Errorf(errorlog.LevelError, "cannot spool a response: %v", err)
	}
	p.sendTrailer(x, resp)
}

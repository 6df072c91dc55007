package client

import (
	"fmt"
	"io"
	"net/http"
	"net/textproto"

	"github.com/tarehq/tare/internal/roundtrip"
	"github.com/tarehq/tare/internal/wire/http1"
)

// maxInterim limits the number of interim responses to a request. If no hook receives them, their
// heads also count toward the limit on the response's head.
const maxInterim = 100

// receive receives the head of the response.
func (x *exchange) receive() error {
	s := x.scratch
	limits := http1.Limits{Bytes: x.client.maxHeadBytes, Fields: maxFields}
	for n := 0; ; n++ {
		s.head.Reset()
		if err := x.receiveHead(limits); err != nil {
			return err
		}
		if s.head.Status >= 200 || s.head.Status == http.StatusSwitchingProtocols {
			return x.headReceived()
		}
		if n == maxInterim {
			return x.newError(Server, Malformed, "reading the response from", errTooManyInterim)
		}
		isSeen, err := x.handleInterim()
		if err != nil {
			return err
		}
		if x.parsed += s.head.Size; !isSeen {
			limits.Bytes = max(1, limits.Bytes-s.head.Size)
		}
	}
}

// receiveHead receives one head.
func (x *exchange) receiveHead(limits http1.Limits) error {
	s := x.scratch
	for {
		complete, err := s.head.Parse(s.in[x.parsed:x.filled], limits)
		if err != nil {
			return x.newError(Server, Malformed, "reading the response from", err)
		}
		if complete {
			return nil
		}
		// more bytes cannot make it a response, and may never come
		if !beginsResponse(s.in[x.parsed:x.filled]) {
			return x.newError(Server, Malformed, "reading the response from", errNotHTTP)
		}
		if err := x.fill(); err != nil {
			return err
		}
	}
}

// beginsResponse reports whether the bytes may be the beginning of a response.
func beginsResponse(b []byte) bool {
	const version = "HTTP/1."
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// fill receives more bytes, behind those that are not parsed.
func (x *exchange) fill() error {
	s := x.scratch
	switch {
	case x.parsed == x.filled:
		x.parsed, x.filled = 0, 0
	case x.filled < len(s.in):
	case x.parsed > 0:
		x.filled = copy(s.in, s.in[x.parsed:x.filled])
		x.parsed = 0
	default:
		s.in = append(s.in, make([]byte, len(s.in))...)
	}
	n, err := x.conn.Read(s.in[x.filled:])
	if n > 0 {
		x.filled += n
		if !x.receivedAny {
			x.receivedAny = true
			if x.trace != nil && x.trace.GotFirstResponseByte != nil {
				x.trace.GotFirstResponseByte()
			}
		}
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return x.readError(err)
}

// handleInterim handles an interim response, and reports whether a hook received it.
func (x *exchange) handleInterim() (isSeen bool, err error) {
	head, trace := &x.scratch.head, x.trace
	if head.Status == http.StatusContinue {
		if trace != nil && trace.Got100Continue != nil {
			trace.Got100Continue()
		}
		if x.expectsContinue {
			x.startBody()
		}
	}
	var hook func(status int, h http.Header) error
	switch onInterim := x.client.OnInterim; {
	case trace != nil && trace.Got1xxResponse != nil:
		hook = func(status int, h http.Header) error { return trace.Got1xxResponse(status, textproto.MIMEHeader(h)) }
	case onInterim != nil && head.Status != http.StatusContinue:
		hook = func(status int, h http.Header) error { return onInterim(x.request, status, h) }
	default:
		return false, nil
	}
	text := http1.TextOf(x.scratch.in[x.parsed : x.parsed+head.Size])
	if err := hook(head.Status, roundtrip.Header(nil, head.Fields, &text, nil)); err != nil {
		return true, x.newError(Local, Malformed, "reading the response from", fmt.Errorf("%w: %w", errHookFailed, err))
	}
	return true, nil
}

// makeResponse makes the response of its head, and ends the exchange if the whole response has been
// received.
func (x *slab) makeResponse() (*http.Response, error) {
	s, r := x.scratch, x.request
	head := &s.head
	framing := head.Body(r.Method == http.MethodHead)
	at := x.parsed
	x.parsed += head.Size
	isWhole := framing.Mode == http1.NoBody || framing.Mode == http1.ByLength &&
		framing.Length <= int64(x.filled-x.parsed)
	isWhole = isWhole && (framing.Length == 0 || x.sendProgress() != bodySending)
	switch {
	case x.switchesProtocol() && x.sendProgress() < bodyEnding:
		return nil, x.fail(x.newError(Server, Malformed, "reading the response from", errEarlySwitch))
	case x.switchesProtocol():
		framing, isWhole = http1.Framing{Mode: http1.UntilClose}, false
	case head.Status == http.StatusSwitchingProtocols:
		return nil, x.fail(x.newError(Server, Malformed, "reading the response from", errUnrequestedSwitch))
	}
	end := x.parsed
	if isWhole {
		end += int(framing.Length)
	}
	text, body := copyHeadAndBody(s.in[at:end], head.Size)
	if err := x.fillResponse(&text, framing); err != nil {
		return nil, x.fail(err)
	}
	switch {
	case x.switchesProtocol():
		x.response.Body = x.detachConn()
	case !isWhole:
		x.response.Body = newResponseBody(x, framing)
	default:
		x.parsed = end
		x.finish(head.Persistent && x.parsed == x.filled)
		x.response.Body = http.NoBody
		if framing.Length > 0 {
			x.whole.Text = body
			x.response.Body = &x.whole
		}
		x.release()
	}
	x.decompress()
	return &x.response, nil
}

// copyHeadAndBody makes strings of a head and the body behind it. A small head shares one string
// with the body. A large head has a string of its own: a caller that keeps a field of it must not
// keep the body, too.
func copyHeadAndBody(in []byte, head int) (text http1.Text, body string) {
	if http1.IsLarge(head) {
		return http1.TextOf(in[:head]), string(in[head:])
	}
	all := string(in)
	return http1.TextIn(all), all[head:]
}

// sendProgress returns how much of the request has been sent. Sending a body may go on until the
// response has been read.
func (x *exchange) sendProgress() progress {
	if !x.streamsBody() {
		return bodySent
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.progress
}

// fillResponse sets the fields of the response, except for the body.
func (x *slab) fillResponse(text *http1.Text, framing http1.Framing) error {
	head, r := &x.scratch.head, &x.response
	r.Request, r.TLS = x.request, x.conn.Value.tlsState
	const version, status = len("HTTP/1.1"), len("HTTP/1.1 200")
	r.Proto, r.ProtoMajor, r.ProtoMinor = text.Of(http1.Span{End: uint32(version)}), 1, head.Minor
	r.StatusCode = head.Status
	end := uint32(status)
	if head.Reason.End > head.Reason.Start {
		end = head.Reason.End
	}
	r.Status = text.Of(http1.Span{Start: uint32(version + 1), End: end})
	room := x.values[:0]
	if r.Header != nil { // of a Memory, which reuses the map and not the values
		room = nil
	}
	r.Header = roundtrip.Header(r.Header, head.Fields, text, room)
	for _, f := range head.Fields {
		switch f.Known {
		case http1.NamePragma:
			if !x.client.Verbatim {
				addCacheControl(r.Header)
			}
		case http1.NameContentEncoding:
			x.hasContentEncoding = true
		}
	}
	r.Close = !head.Persistent || framing.Mode == http1.UntilClose
	if x.request.Method == http.MethodHead {
		framing = head.Body(false) // the framing of the response to GET
	}
	switch framing.Mode {
	case http1.UntilClose:
		r.ContentLength = -1
	case http1.ByChunks:
		r.ContentLength = -1
		r.TransferEncoding = []string{"chunked"}
		return x.announceTrailer()
	default:
		r.ContentLength = framing.Length
	}
	return nil
}

// addCacheControl interprets Pragma as net/http does.
func addCacheControl(h http.Header) {
	if pragma, ok := h["Pragma"]; ok && pragma[0] == "no-cache" {
		if _, ok := h["Cache-Control"]; !ok {
			h["Cache-Control"] = []string{"no-cache"}
		}
	}
}

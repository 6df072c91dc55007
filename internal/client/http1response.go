package client

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// maxInterim limits the number of interim responses to a request. If no hook receives them, their
// heads also count toward the limit on the response's head.
const maxInterim = 100

func (h *http1Codec) receiveHead(x *exchange) error {
	limits := http1.Limits{Bytes: x.client.maxHeadBytes, Fields: maxFields}
	for n, hasContinued := 0, false; ; n++ {
		h.head.Reset()
		if err := h.receiveOneHead(x, limits); err != nil {
			return err
		}
		if h.head.Status >= 200 || h.head.Status == http.StatusSwitchingProtocols {
			return nil
		}
		if n == maxInterim {
			return x.malformed(errTooManyInterim)
		}
		isSeen, err := h.handleInterim(x, hasContinued)
		if err != nil {
			return err
		}
		hasContinued = hasContinued || h.head.Status == http.StatusContinue
		if x.scratch.parsed += h.head.Size; !isSeen {
			limits.Bytes = max(1, limits.Bytes-h.head.Size)
		}
	}
}

// receiveOneHead receives the head of the final response, or of an interim one.
func (h *http1Codec) receiveOneHead(x *exchange, limits http1.Limits) error {
	const version = "HTTP/1."
	for {
		received := x.scratch.received()
		complete, err := h.head.Parse(received, limits)
		switch {
		case err != nil:
			return x.malformed(err)
		case complete:
			return nil
		case !strings.HasPrefix(version, string(received[:min(len(received), len(version))])):
			// more bytes cannot make it a response, and may never come
			return x.malformed(errNotHTTP)
		}
		if err := x.fill(); err != nil {
			return err
		}
	}
}

// handleInterim handles an interim response, and reports whether a hook received it. hasContinued
// reports that "100 Continue" has arrived before.
func (h *http1Codec) handleInterim(x *exchange, hasContinued bool) (isSeen bool, err error) {
	head, trace := &h.head, x.trace
	if head.Status == http.StatusContinue && !hasContinued && x.expectsContinue {
		if trace != nil && trace.Got100Continue != nil {
			trace.Got100Continue()
		}
		x.startBody()
	}
	return x.callInterim(head.Status, x.scratch.call.hooks(), func() http.Header {
		text := http1.TextOf(x.scratch.received()[:head.Size])
		return makeHeader(nil, head.Fields, &text, nil)
	})
}

func (h *http1Codec) makeResponse(x *slab) error {
	s, head := x.scratch, &h.head
	framing := head.Body(x.request.Method == http.MethodHead)
	in := s.received()
	s.parsed += head.Size
	isWhole := framing.Mode == http1.NoBody || framing.Mode == http1.ByLength &&
		framing.Length <= int64(len(s.received()))
	isWhole = isWhole && (framing.Length == 0 || x.sendProgress() != bodySending)
	switches := x.switchesProtocol(head.Status)
	switch {
	case switches && x.sendProgress() < bodyEnding:
		return x.newError(Server, Malformed, whileReadingHead, errEarlySwitch)
	case switches:
		framing, isWhole = http1.Framing{Mode: http1.UntilClose}, false
	case head.Status == http.StatusSwitchingProtocols:
		return x.newError(Server, Malformed, whileReadingHead, errUnrequestedSwitch)
	}
	end := head.Size
	if isWhole {
		end += int(framing.Length)
	}
	h.setFraming(x, framing)
	var body string
	isEncoded := false
	if s.memory != nil && !h.announcesTrailer(&x.response) {
		m := s.memory
		head.Fields = m.keep(in[:head.Size], head.Fields, end-head.Size)
		m.text = append(m.text, in[head.Size:end]...)
		body = m.body()
	} else {
		var text http1.Text
		text, body = copyHeadAndBody(in[:end], head.Size)
		var err error
		if isEncoded, err = h.setHeader(x, &text); err != nil {
			return err
		}
	}
	h.mode, h.remaining = framing.Mode, framing.Length
	isEncoded = isEncoded && x.requestedGzip && !switches
	switch {
	case switches:
		x.response.Body = x.detachConn()
	case isWhole:
		s.parsed += int(framing.Length)
		x.endWhole(body, h.isClean(&x.exchange))
	default:
		x.response.Body = &responseBody{x: x}
	}
	if isEncoded {
		x.decompress()
	}
	return nil
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

// announcesTrailer reports whether the head has the Trailer field, which Response.Trailer shows.
func (h *http1Codec) announcesTrailer(r *http.Response) bool {
	return r.TransferEncoding != nil &&
		slices.ContainsFunc(h.head.Fields, func(f http1.Field) bool { return f.Known == http1.NameTrailer })
}

// setHeader sets the Header, Proto, Status and Trailer of the response. It reports whether there is
// a Content-Encoding.
func (h *http1Codec) setHeader(x *slab, text *http1.Text) (isEncoded bool, err error) {
	head, r := &h.head, &x.response
	const version, status = len("HTTP/1.1"), len("HTTP/1.1 200")
	r.Proto = text.Of(http1.Span{End: uint32(version)})
	end := max(uint32(status), head.Reason.End)
	r.Status = text.Of(http1.Span{Start: uint32(version + 1), End: end})
	r.Header = makeHeader(nil, head.Fields, text, x.headerValues())
	if head.Minor > 0 && !head.IsPersistent() && !x.client.config.Verbatim {
		delete(r.Header, "Connection") // as in net/http: Response.Close stands for it
	}
	for _, f := range head.Fields {
		switch f.Known {
		case http1.NamePragma:
			if !x.client.config.Verbatim {
				http1.TranslatePragma(r.Header)
			}
		case http1.NameContentEncoding:
			isEncoded = true
		}
	}
	if r.TransferEncoding != nil {
		r.Trailer, err = http1.TakeTrailer(r.Header, maxFields, x.client.config.Verbatim,
			textproto.CanonicalMIMEHeaderKey)
		if err != nil {
			err = x.newError(Server, Malformed, whileReadingHead, errTrailerNames)
		}
	}
	return isEncoded, err
}

// setFraming sets the status code, version, length and coding of the response.
func (h *http1Codec) setFraming(x *slab, framing http1.Framing) {
	head, r := &h.head, &x.response
	x.setResponse()
	r.StatusCode, r.ProtoMajor, r.ProtoMinor = head.Status, 1, head.Minor
	r.Close = !head.IsPersistent() || framing.Mode == http1.UntilClose && head.Status != http.StatusSwitchingProtocols
	length, hasLength := head.Length()
	isHead, mayHaveBody := x.request.Method == http.MethodHead, http1.BodyAllowed(head.Status)
	if head.IsChunked() && (mayHaveBody || !x.client.config.Verbatim) {
		r.TransferEncoding = []string{"chunked"}
	}
	switch {
	case framing.Mode == http1.ByLength, isHead && hasLength:
		r.ContentLength = length
	case isHead, mayHaveBody && framing.Mode != http1.NoBody:
		r.ContentLength = -1
	}
}

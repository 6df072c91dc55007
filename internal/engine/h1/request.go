package h1

import (
	"io"
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
)

// newExchange makes an exchange of the complete head, which is in. Its error calls for a 400
// response and contains nothing that the client sent.
func (h *codec) newExchange(c *exchange.Conn, in []byte) (*exchange.Exchange, error) {
	head := &h.request
	text := http1.TextOf(in) // for a small head: the one string that all others are parts of
	x := &exchange.Exchange{}
	c.Prepare(x)
	r := &x.Request

	r.Method = text.Of(head.Method)
	r.RequestURI = text.Of(head.Target)
	if r.ProtoMinor = head.Minor; head.Minor != 1 {
		r.Proto = "HTTP/1." + string(rune('0'+head.Minor))
	}
	r.Close = !head.IsPersistent()
	if host, ok := head.Host(); ok {
		r.Host = text.Of(host)
	}
	if err := x.SetURL(); err != nil {
		return nil, err
	}
	// Host is not in the Header
	x.SetHeader(head.Fields, len(head.Fields)-1, &text, textproto.CanonicalMIMEHeaderKey)
	http1.TranslatePragma(r.Header)
	if err := h.setFraming(c, x); err != nil {
		return nil, err
	}
	x.Response.Init(c, x, head.Minor, head.IsPersistent())
	x.Response.IsCONNECT = r.Method == http.MethodConnect
	return x, nil
}

// setFraming sets the body, ContentLength, TransferEncoding and Trailer of the request.
func (h *codec) setFraming(c *exchange.Conn, x *exchange.Exchange) (err error) {
	r, f := &x.Request, h.request.Body()
	continues, _ := h.request.ExpectsContinue()
	expects := continues && h.request.Minor > 0
	switch f.Mode {
	case http1.NoBody:
		x.Body.Init(x, exchange.NoBody, 0, false)
		return nil
	case http1.ByLength:
		x.Body.Init(x, exchange.ByLength, f.Length, expects)
		return nil
	}
	h.chunks, h.framing = http1.Chunked{}, 0
	x.Body.Init(x, exchange.ByChunks, -1, expects)
	r.TransferEncoding = []string{"chunked"}
	r.Trailer, err = http1.TakeTrailer(r.Header, c.Config.Limits.Fields, false, textproto.CanonicalMIMEHeaderKey)
	return err
}

// ReadBody reads a chunked body: the data of all chunks that have arrived, as far as it fits p. It
// returns io.EOF with the last data if the end has arrived, as net/http does.
func (h *codec) ReadBody(b *exchange.Body, p []byte) (total int, err error) {
	c := b.Exchange.Conn()
	for total < len(p) || !h.chunks.HasData(c.Input()) {
		if h.chunks.Done() {
			if total > 0 && !h.HasArrived(b, false) {
				return total, nil
			}
			return total, h.readTrailer(b)
		}
		if len(c.Input()) == 0 {
			if total > 0 {
				return total, nil
			}
			size := len(c.Room()) // all of the buffer
			if left := h.chunks.Left(); left >= int64(size) && len(p) > size {
				// directly into p: some handlers take as long for a small piece as for a large one
				n, err := b.ReadDirectly(p[:min(int64(len(p)), left)])
				_, _, _ = h.chunks.Next(p[:n]) // data only, which has no faults
				return n, err
			}
			if err := b.Fill(); err != nil {
				return 0, err
			}
		}
		in := c.Input()
		if room := len(p) - total; room > 0 && len(in) > room { // so that all data of one call fits p
			in = in[:room]
		}
		data, n, err := h.chunks.Next(in)
		c.Consume(n)
		h.framing += int64(n - len(data))
		if err != nil {
			return total, err
		}
		total += copy(p[total:], data)
	}
	return total, nil
}

// FramingLength returns how many bytes of a chunked body have been read that are not data.
func (h *codec) FramingLength() int64 { return h.framing }

func (h *codec) HasArrived(b *exchange.Body, whole bool) bool {
	c := b.Exchange.Conn()
	chunks, in := h.chunks, c.Input()
	for !chunks.Done() {
		if len(in) == 0 {
			return false
		}
		data, n, err := chunks.Next(in)
		if err != nil || len(data) > 0 && !whole {
			return true
		}
		in = in[n:]
	}
	var t http1.Trailer
	complete, err := t.Parse(in, c.Config.TrailerLimits())
	return complete || err != nil
}

// readTrailer reads the trailer section into Request.Trailer, and then returns io.EOF.
func (h *codec) readTrailer(b *exchange.Body) error {
	c := b.Exchange.Conn()
	r := b.Exchange.HandlerRequest()
	var t http1.Trailer
	for {
		in := c.Input()
		complete, err := t.Parse(in, c.Config.TrailerLimits())
		if err != nil {
			return err
		}
		if complete {
			r.Trailer = t.AddTo(r.Trailer, in, textproto.CanonicalMIMEHeaderKey)
			c.Consume(t.Size)
			h.framing += int64(t.Size)
			return io.EOF
		}
		if err := b.Fill(); err != nil {
			return err
		}
	}
}

// describe sets what is known of a request: see Refusal.Request.
func describe(r *http.Request, in []byte, limits http1.Limits) (line []byte) {
	var head http1.Request
	_, _ = head.Parse(in, limits)
	line = head.Line(in)
	if !head.Begun() {
		return line
	}
	text := http1.TextOf(in)
	r.Method, r.RequestURI = text.Of(head.Method), text.Of(head.Target)
	r.ProtoMajor, r.ProtoMinor = 1, head.Minor
	r.Proto = "HTTP/1." + string(rune('0'+head.Minor))
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || u.User != nil {
		return line
	}
	r.URL = u
	if host, ok := head.Host(); ok {
		r.Host = text.Of(host)
	}
	if u.Host != "" {
		r.Host = u.Host
	}
	for _, f := range head.Fields { // those that precede the fault
		if f.Known != http1.NameHost {
			r.Header.Add(text.Of(f.Name), text.Of(f.Value))
		}
	}
	return line
}

// prefaceHead is the part of HTTP/2's preface that looks like a request's head. If the server does
// not serve HTTP/2 without TLS itself, handlers receive it as a request, as they do from net/http.
// They may hijack the connection and speak HTTP/2.
const prefaceHead = "PRI * HTTP/2.0\r\n\r\n"

// newPrefaceExchange makes the same request of it as net/http.
func newPrefaceExchange(c *exchange.Conn) *exchange.Exchange {
	x := &exchange.Exchange{}
	c.Prepare(x)
	r := &x.Request
	r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor = "PRI", "*", "HTTP/2.0", 2, 0
	x.URL.Path = "*"
	r.URL, r.Header, r.Close = &x.URL, make(http.Header), true
	x.Body.Init(x, exchange.NoBody, -1, false)
	x.Response.Init(c, x, 1, false)
	return x
}

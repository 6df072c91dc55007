package load

import (
	"errors"

	"github.com/tarehq/tare/internal/wire/http1"
)

// httpProtocol is HTTP/1.0 or HTTP/1.1, by its minor version.
type httpProtocol struct{ minor int }

func (httpProtocol) defaultPort(secure bool) string {
	if secure {
		return "443"
	}
	return "80"
}

func (o httpProtocol) render(dst []byte, q *request, _ address, last bool) []byte {
	b := http1.AppendRequestLine(dst, o.minor, q.method, q.url.target)
	if !q.has("Host") {
		b = http1.AppendField(b, "Host", q.url.host)
	}
	for _, f := range q.fields {
		b = http1.AppendField(b, f.name, f.value)
	}
	if q.sendsLength() && !q.has("Content-Length") && !q.has("Transfer-Encoding") {
		b = http1.AppendLength(b, int64(len(q.body)))
	}
	if last && o.minor > 0 && !q.has("Connection") {
		b = http1.AppendField(b, "Connection", "close")
	}
	return append(http1.AppendHeadEnd(b), q.body...)
}

func (o httpProtocol) newReader(s *readerShared) reader {
	return &httpReader{shared: s, minor: o.minor}
}

type httpReader struct {
	shared    *readerShared
	minor     int    // minor version of the requests
	partial   []byte // a head or trailer section received in pieces
	mode      http1.Mode
	remaining int64 // of a body with Content-Length
	chunks    http1.Chunked
}

var errSwitched = errors.New("the server switched protocols (status 101)")

func (r *httpReader) untilClose() bool { return r.mode == http1.UntilClose }

func (r *httpReader) reset() { r.partial, r.mode = r.partial[:0], http1.NoBody }

func (r *httpReader) consume(in []byte, a *response) (n int, err error) {
	for n < len(in) {
		var k int
		if a.stage == inBody {
			k, err = r.body(in[n:], a)
		} else {
			k, err = r.head(in[n:], a)
		}
		n += k
		if err != nil {
			return n, err
		}
		if a.stage == inBody && r.mode == http1.NoBody {
			a.stage = complete
			break
		}
	}
	return n, nil
}

// head parses a head, or keeps an incomplete one. A head that arrives whole, as nearly all do, is
// parsed in place.
func (r *httpReader) head(in []byte, a *response) (n int, err error) {
	head, kept := in, len(r.partial)
	if kept > 0 {
		r.partial = append(r.partial, in...)
		head = r.partial
	}
	response := &r.shared.response
	response.Reset()
	complete, err := response.Parse(head, headLimits())
	if err != nil {
		return 0, err
	}
	if !complete {
		if kept == 0 {
			r.partial = append(r.partial, in...)
		}
		a.stage = inHead
		return len(in), nil
	}
	text := head
	r.partial = r.partial[:0]
	n = response.Size - kept
	if response.Status == 101 {
		return n, errSwitched
	}
	if response.Status < 200 {
		a.stage = beforeHead // an interim response; the final one follows
		return n, nil
	}
	if r.shared.tally.Head == "" {
		r.shared.tally.Head = string(text[:response.Size])
	}
	if a.checked != nil {
		a.checked.head(text, &response.Head)
	}
	f := response.Body(a.isHead)
	r.mode, r.remaining, r.chunks = f.Mode, f.Length, http1.Chunked{}
	a.begin(response.Status, !r.keepsAlive())
	if r.mode != http1.ByLength && r.mode != http1.NoBody {
		a.events = newEventStream(r.shared.tally, text, response.Fields)
	}
	return n, nil
}

// keepsAlive reports whether the server keeps the connection open after the response. In response
// to HTTP/1.0, its Connection field must announce that, whatever the server's own version.
func (r *httpReader) keepsAlive() bool {
	return r.shared.response.IsPersistent() && (r.minor > 0 || r.shared.response.KeepsAlive())
}

// body consumes bytes of the body. At its end, mode becomes NoBody.
func (r *httpReader) body(in []byte, a *response) (n int, err error) {
	switch r.mode {
	case http1.UntilClose:
		a.data(in)
		return len(in), nil
	case http1.ByLength:
		n = int(min(r.remaining, int64(len(in))))
		a.data(in[:n])
		if r.remaining -= int64(n); r.remaining == 0 {
			r.mode = http1.NoBody
		}
		return n, nil
	}
	if !r.chunks.Done() {
		data, n, err := r.chunks.Next(in)
		a.data(data)
		return n, err
	}
	return r.trailer(in, a)
}

func (r *httpReader) trailer(in []byte, a *response) (n int, err error) {
	kept := len(r.partial)
	r.partial = append(r.partial, in...)
	var t http1.Trailer
	complete, err := t.Parse(r.partial, headLimits())
	if err != nil || !complete {
		return len(in), err
	}
	if a.checked != nil {
		a.checked.section(r.partial, &t.Head)
	}
	r.partial = r.partial[:0]
	r.mode = http1.NoBody
	return t.Size - kept, nil
}

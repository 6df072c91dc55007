package engine

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// http1Codec is the codec of HTTP/1.
type http1Codec struct{}

func (http1Codec) parseHead(c *conn) (complete, ok bool) {
	complete, err := c.request.Parse(c.in[c.next:c.end], c.limits)
	if err == nil {
		return complete, true
	}
	if whole, ok := beginsPreface(c.in[c.next:c.end]); ok && !c.servesH2C {
		c.request.Reset() // Size 0 marks the preface: every other complete head has a size
		return whole, true
	}
	c.refuseHead(err)
	return false, false
}

func (http1Codec) beginExchange(c *conn) *exchange {
	if c.request.Size == 0 {
		c.next += len(prefaceHead)
		return newPrefaceExchange(c)
	}
	x, err := newExchange(c, &c.request, c.in[c.next:c.next+c.request.Size])
	if err != nil {
		c.refuse(http.StatusBadRequest, err.Error())
		return nil
	}
	if _, unmet := c.request.ExpectsContinue(); unmet {
		c.refuse(http.StatusExpectationFailed, "unknown expectation")
		return nil
	}
	c.next += c.request.Size
	return x
}

func (http1Codec) nextRequest(c *conn) { c.request.Reset() }

func (http1Codec) refuse(c *conn, status int, why string) {
	text := refusal(status, why)
	out := http1.AppendStatusLine(c.out, 1, status, http.StatusText(status))
	out = http1.AppendField(out, "Date", c.date.text())
	out = http1.AppendField(out, "Content-Type", "text/plain; charset=utf-8")
	out = http1.AppendField(out, "Content-Length", strconv.Itoa(len(text)))
	out = http1.AppendField(out, "Connection", "close")
	out = http1.AppendHeadEnd(out)
	c.out = append(out, text...)
}

func (http1Codec) appendInterim(w *response, code int) bool {
	if w.minor == 0 {
		return false // HTTP/1.0 has no interim responses (RFC 9110, 15.2)
	}
	w.conn.out = http1.AppendStatusLine(w.conn.out, 1, code, statusText(code))
	return true
}

func (http1Codec) startHead(w *response, code int) {
	if code == http.StatusOK && w.minor > 0 {
		w.conn.out = append(w.conn.out, "HTTP/1.1 200 OK\r\n"...)
		return
	}
	w.conn.out = http1.AppendStatusLine(w.conn.out, int(min(w.minor, 1)), code, statusText(code))
}

func (http1Codec) sendsField(string) bool { return true }

func (http1Codec) delimit(w *response) {
	w.chooseCoding()
	w.choosePersistence()
}

func (http1Codec) emitBody(w *response, p []byte) error {
	c := w.conn
	if w.chunked {
		c.out = http1.AppendChunkSize(c.out, len(p))
	}
	if len(p) >= outSize {
		if w.chunked {
			return c.flush(p, []byte("\r\n"))
		}
		return c.flush(p)
	}
	c.out = append(c.out, p...)
	if w.chunked {
		c.out = http1.AppendChunkEnd(c.out)
	}
	if len(c.out) >= outSize {
		return c.flush()
	}
	return c.writeErr
}

func (http1Codec) endBody(w *response) {
	if w.chunked && !w.isHEAD {
		out := http1.AppendLastChunk(w.conn.out)
		w.conn.out = http1.AppendHeadEnd(w.appendTrailers(out))
	}
}

// chooseCoding sets chunked, or closesConn if only the end of the connection can mark the end of
// the body.
func (w *response) chooseCoding() {
	switch {
	case w.isHEAD || w.noBody || w.length >= 0:
	case w.minor == 0 || w.conn.summary.transferEncoding == "identity":
		w.closesConn = true
	default:
		w.chunked = true
	}
}

// choosePersistence sets closesConn if the connection cannot be kept.
func (w *response) choosePersistence() {
	if w.minor == 0 {
		switch known := w.isHEAD || w.noBody || w.length >= 0; {
		case !w.keepsHTTP10 || !known:
			w.closesConn = true
		case w.conn.summary.connection == nil:
			w.conn.summary.connection = keepAlive
		}
	}
	if !w.conn.keepsConnections() || w.conn.retired.Load() {
		w.closesConn = true
	}
}

// keepAlive is only read.
var keepAlive = []string{"keep-alive"}

func (http1Codec) appendConnection(out []byte, w *response) []byte {
	values := w.conn.summary.connection
	if w.closesConn && w.status != http.StatusSwitchingProtocols && !hasToken(values, "close") {
		if w.minor > 0 {
			out = http1.AppendField(out, "Connection", "close")
		}
		return out
	}
	if len(values) == 0 { // the usual case
		return out
	}
	return appendField(out, "Connection", values)
}

// appendTrailers appends the trailer fields: those announced in Trailer, and those with
// http.TrailerPrefix.
func (w *response) appendTrailers(out []byte) []byte {
	for _, list := range w.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); http1.TrailerAllowed(name) {
				out = appendField(out, name, w.header[name])
			}
		}
	}
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && http1.TrailerAllowed(name) {
			out = appendField(out, name, values)
		}
	}
	return out
}

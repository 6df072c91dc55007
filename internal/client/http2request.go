package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/client/h2"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// userAgent2 is the value of net/http.
const userAgent2 = "Go-http-client/2.0"

// protocolField is where callers set the protocol of an extended CONNECT request (RFC 8441, 4), as
// with net/http.
const protocolField = ":protocol"

// encode encodes the request into the scratch, with a body that is small and in memory. Such a body
// may have been read for HTTP/1.1 before: then it ends what the scratch holds.
func (e *http2Exchange) encode(r *h2.Request) error {
	x := e.x
	var body []byte
	if out := x.scratch.out; x.bodyBuffered {
		body = append(body, out[len(out)-int(x.bodyLength):]...)
	}
	setBodyLength(&x.exchange)
	x.expectsContinue = x.expectsContinue && x.client.settings.ExpectContinueTimeout > 0 // as in net/http
	e.hasTrailer = x.body != nil && len(x.request.Trailer) > 0
	x.scratch.out = x.scratch.out[:0]
	if err := e.encodeHead(r); err != nil {
		return err
	}
	head := len(x.scratch.out)
	if x.bodyBuffered {
		x.scratch.out = append(x.scratch.out, body...)
	} else if err := bufferBody(&x.exchange); err != nil {
		return err
	}
	r.ListSize = e.listSize
	r.Head, r.Body = x.scratch.out[:head], x.scratch.out[head:]
	r.IsHead = x.request.Method == http.MethodHead
	r.IsLast = !x.streamsBody() && !e.isTunnel && !e.hasTrailer
	return nil
}

// encodeHead encodes the head. It fails if the request is not valid.
func (e *http2Exchange) encodeHead(r *h2.Request) error {
	x, h := e.x, e.x.request.Header
	var array [inlineNames]string
	names, err := x.fieldNames(array[:0], isUnsent)
	if err != nil {
		return err
	}
	f := wire.RequestFields{Method: x.request.Method, Scheme: x.request.URL.Scheme}
	if f.Method == "" {
		f.Method = http.MethodGet
	}
	if p := h[protocolField]; len(p) > 0 {
		f.Protocol = p[0]
	}
	isConnect := f.Method == http.MethodConnect && f.Protocol == ""
	r.NeedsExtendedConnect = f.Protocol != ""
	switch {
	case !http1.ValidToken(f.Method):
		return fmt.Errorf("net/http: invalid method %q", f.Method)
	case !http1.ValidValue(f.Protocol):
		return fmt.Errorf("net/http: invalid header field value for %q", protocolField)
	case f.Protocol != "" && f.Method != http.MethodConnect:
		return errors.New("tare: :protocol in a request whose method is not CONNECT")
	case !x.client.config.Verbatim && !mayIgnoreConnection(h):
		return errors.New("tare: HTTP/2 does not support the Upgrade and Connection fields of the request")
	}
	e.isTunnel = f.Method == http.MethodConnect && x.body == nil
	if f.Authority, err = x.hostField(); err != nil {
		return err
	}
	if !isConnect {
		if f.Path, err = x.http2Path(f.Method, f.Authority); err != nil {
			return err
		}
	} else {
		f.Scheme = ""
	}
	for _, pseudo := range [...][2]string{{":authority", f.Authority}, {":method", f.Method}, {":path", f.Path},
		{":scheme", f.Scheme}, {protocolField, f.Protocol}} {
		if pseudo[1] != "" {
			x.traceField(pseudo[0], pseudo[1])
			e.listSize += len(pseudo[0]) + len(pseudo[1]) + fieldOverhead
		}
	}
	b := wire.AppendRequest(wire.AppendHeaders(x.scratch.out, 0), &f)
	if b, err = e.appendFields(b, f.Method, names); err != nil {
		return err
	}
	x.scratch.out = b
	return nil
}

// mayIgnoreConnection reports whether Connection and Upgrade, which HTTP/2 lacks, may be omitted.
// The rule is net/http's.
func mayIgnoreConnection(h http.Header) bool {
	c := h["Connection"]
	return firstValue(h["Upgrade"]) == "" && (len(c) == 0 || len(c) == 1 &&
		(c[0] == "" || strings.EqualFold(c[0], "close") || strings.EqualFold(c[0], "keep-alive")))
}

func (x *exchange) http2Path(method, host string) (string, error) {
	b, err := x.appendTarget(nil, method, host)
	if err != nil {
		return "", err
	}
	path := strings.TrimPrefix(string(b), x.request.URL.Scheme+"://"+host)
	if path != "*" && !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("tare: invalid request target %q: over HTTP/2 it begins with a slash", path)
	}
	return path, nil
}

func (e *http2Exchange) appendFields(b []byte, method string, names []string) ([]byte, error) {
	x := e.x
	if x.bodyLength > 0 || x.bodyLength == 0 &&
		(method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch) {
		b = e.appendField(b, "Content-Length", strconv.FormatInt(x.bodyLength, 10))
	}
	if e.hasTrailer {
		list, err := x.trailerNames()
		if err != nil {
			return nil, err
		}
		b = e.appendField(b, "Trailer", list)
	}
	addsAgent := !x.client.config.Verbatim
	for _, name := range names {
		values := x.request.Header[name]
		if len(name) == len("User-Agent") && strings.EqualFold(name, "User-Agent") {
			addsAgent, values = false, x.agentsToSend(values)
		}
		for _, v := range values {
			b = e.appendField(b, name, v)
		}
	}
	if addsAgent {
		b = e.appendField(b, "User-Agent", userAgent2)
	}
	if x.requestedGzip = x.requestsGzip(method); x.requestedGzip {
		b = e.appendField(b, "Accept-Encoding", "gzip")
	}
	return b, nil
}

// isUnsent reports whether a field of Request.Header is not sent as such.
func isUnsent(name string) bool {
	return isWrittenSeparately(name) && name != "User-Agent" || name == protocolField || wire.ConcernsConnection(name)
}

func (e *http2Exchange) appendField(b []byte, name, value string) []byte {
	if t := e.x.trace; e.x.tracesFields() {
		t.WroteHeaderField(strings.ToLower(name), []string{value})
	}
	e.listSize += len(name) + len(value) + fieldOverhead
	return wire.AppendField(b, name, value)
}

// trailerBlock encodes the trailer section. Its values may have been set while the body was read.
func trailerBlock(trailer http.Header) []byte {
	b := wire.AppendHeaders(nil, 0)
	for name, values := range trailer {
		for _, v := range values {
			if http1.TrailerAllowed(name) && http1.ValidValue(v) {
				b = wire.AppendField(b, name, v)
			}
		}
	}
	return b
}

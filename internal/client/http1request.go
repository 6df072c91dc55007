package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// userAgent is the value of net/http, which servers know.
	userAgent = "Go-http-client/1.1"
	// inlineNames is the number of field names that are sorted without an allocation.
	inlineNames = 24
)

func (h *http1Codec) encode(x *exchange) error {
	setBodyLength(x)
	if err := h.writeHead(x); err != nil {
		return err
	}
	return bufferBody(x)
}

// setBodyLength sets bodyLength, expectsContinue and keepAlive.
func setBodyLength(x *exchange) {
	r := x.request
	switch {
	case x.body == nil:
	case r.ContentLength == 0, len(r.TransferEncoding) > 0 && r.TransferEncoding[0] == "chunked":
		x.bodyLength = -1 // as net/http interprets it
	default:
		x.bodyLength = r.ContentLength
	}
	x.expectsContinue = x.body != nil && http1.HasToken(r.Header["Expect"], "100-continue")
	x.keepAlive = !r.Close && !x.client.settings.DisableKeepAlives && r.Method != http.MethodConnect &&
		!http1.HasToken(r.Header["Connection"], "close")
}

// bufferBody appends the body to the encoded head, if the body is small and in memory. If the
// program has sent the request before, the body has been read: GetBody then returns it again.
func bufferBody(x *exchange) error {
	if x.body == nil || x.expectsContinue || x.bodyLength < 0 || x.bodyLength > smallBody || x.getBody == nil {
		return nil
	}
	out := x.scratch.out
	start, end := len(out), len(out)+int(x.bodyLength)
	if cap(out) <= end {
		out = append(make([]byte, 0, end+512), out...)
	}
	out = out[:end+1] // one more byte detects a body that is too long
	n, err := x.body.readInto(out[start:])
	if err == nil && n == 0 && n < end-start {
		var again io.ReadCloser
		if again, err = x.getBody(); err != nil {
			return err
		}
		defer again.Close()
		n, err = (&requestBody{body: again}).readInto(out[start:])
	}
	switch {
	case err != nil:
		return err
	case n != end-start:
		return bodyLengthError(x.bodyLength, int64(n))
	}
	x.scratch.out = out[:end]
	x.body.Close()
	x.bodyBuffered = true
	return nil
}

// writeHead writes the head into the scratch. It fails if the request is not valid.
func (h *http1Codec) writeHead(x *exchange) error {
	r := x.request
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	switch {
	case !http1.ValidToken(method):
		return fmt.Errorf("net/http: invalid method %q", method)
	case method == http.MethodConnect && x.body != nil:
		return errors.New("tare: a CONNECT request has no body (write to the response's Body instead)")
	}
	var array [inlineNames]string
	names, err := x.fieldNames(array[:0], isWrittenSeparately)
	if err != nil {
		return err
	}
	host, err := x.hostField()
	if err != nil {
		return err
	}
	b := append(x.scratch.out, method...)
	b = append(b, ' ')
	if b, err = x.appendTarget(b, method, host); err != nil {
		return err
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	x.traceField("Host", host)
	b = x.appendAgent(b)
	if b, err = x.appendFraming(b, method); err != nil {
		return err
	}
	for _, name := range names {
		for _, v := range r.Header[name] {
			b = http1.AppendField(b, name, v)
		}
		if x.tracesFields() {
			x.trace.WroteHeaderField(name, r.Header[name])
		}
	}
	b = h.appendAddedFields(x, b, method)
	x.scratch.out = http1.AppendHeadEnd(b)
	return nil
}

func (x *exchange) hostField() (string, error) {
	host := x.request.Host
	if host == "" {
		host = x.request.URL.Host
	}
	if host != "" && host[0] != '[' && http1.ValidHost([]byte(host)) {
		return host, nil
	}
	if !isASCII(host) || strings.Contains(host, "%") { // RFC 6874: a zone is local to this machine
		var err error
		if host, err = sentHost(host); err != nil {
			return "", err
		}
	}
	if !http1.ValidHost([]byte(host)) {
		return "", fmt.Errorf("tare: invalid Host header %q", host)
	}
	return host, nil
}

// appendTarget writes the request target (RFC 9112, 3.2).
func (x *exchange) appendTarget(b []byte, method, host string) ([]byte, error) {
	u := x.request.URL
	start := len(b)
	switch {
	case method == http.MethodConnect && u.Path == "":
		if u.Opaque != "" {
			host = u.Opaque
		}
		b = append(b, host...)
	case u.Opaque != "" && x.client.config.Verbatim:
		b = append(b, u.Opaque...)
	case u.Opaque != "":
		b = append(b, u.RequestURI()...)
	default:
		if x.usesAbsoluteForm() {
			b = append(b, u.Scheme...)
			b = append(b, "://"...)
			b = append(b, host...)
		}
		b = appendPath(b, u)
	}
	for i, c := range b[start:] {
		if c <= ' ' || c == 0x7f {
			return nil, fmt.Errorf("tare: invalid request target %q: space or control byte at offset %d", b[start:], i)
		}
	}
	return b, nil
}

// usesAbsoluteForm reports whether the request goes to a proxy that forwards it.
func (x *exchange) usesAbsoluteForm() bool { return x.key.proxy != "" && x.key.host == "" }

func appendPath(b []byte, u *url.URL) []byte {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	b = append(b, path...)
	if u.ForceQuery || u.RawQuery != "" {
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	return b
}

// appendAgent writes User-Agent.
func (x *exchange) appendAgent(b []byte) []byte {
	agents, ok := x.request.Header["User-Agent"]
	if agents = x.agentsToSend(agents); !ok && !x.client.config.Verbatim {
		x.traceField("User-Agent", userAgent)
		return http1.AppendField(b, "User-Agent", userAgent)
	}
	for _, agent := range agents {
		x.traceField("User-Agent", agent)
		b = http1.AppendField(b, "User-Agent", agent)
	}
	return b
}

// agentsToSend returns the values of User-Agent that are sent. As with net/http's Transport this is
// the first, unless it is empty. A Verbatim Client sends all.
func (x *exchange) agentsToSend(agents []string) []string {
	switch {
	case x.client.config.Verbatim:
		return agents
	case firstValue(agents) == "":
		return nil
	}
	return agents[:1]
}

// appendFraming writes Content-Length or Transfer-Encoding, and Trailer.
func (x *exchange) appendFraming(b []byte, method string) ([]byte, error) {
	switch {
	case x.bodyLength < 0:
		b = http1.AppendField(b, "Transfer-Encoding", "chunked")
		x.traceField("Transfer-Encoding", "chunked")
		if len(x.request.Trailer) > 0 {
			list, err := x.trailerNames()
			if err != nil {
				return nil, err
			}
			x.traceField("Trailer", list)
			b = http1.AppendField(b, "Trailer", list)
		}
	case x.bodyLength > 0, method == http.MethodPost, method == http.MethodPut, method == http.MethodPatch:
		b = http1.AppendLength(b, x.bodyLength)
		if x.trace != nil {
			x.traceField("Content-Length", strconv.FormatInt(x.bodyLength, 10))
		}
	}
	return b, nil
}

// trailerNames returns the value of the Trailer field.
func (x *exchange) trailerNames() (string, error) {
	var names []string
	for name := range x.request.Trailer {
		if name = http.CanonicalHeaderKey(name); !http1.TrailerAllowed(name) {
			return "", fmt.Errorf("tare: invalid trailer field name %q", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ","), nil
}

// fieldNames appends the names of Request.Header, except those that are excluded, and sorts them. It
// fails if a field is not valid, even if it is not sent, as net/http's Transport does.
func (x *exchange) fieldNames(names []string, isExcluded func(string) bool) ([]string, error) {
	for name, values := range x.request.Header {
		isSent := !isExcluded(name)
		if err := validateField("header", name, values); err != nil && (isSent || name != protocolField) {
			return nil, err
		}
		if isSent {
			names = append(names, name)
		}
	}
	for name, values := range x.request.Trailer {
		if err := validateField("trailer", name, values); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

// validateField returns an error without the value, which may be secret.
func validateField(section, name string, values []string) error {
	if !http1.ValidToken(name) {
		return fmt.Errorf("net/http: invalid %s field name %q", section, name)
	}
	for _, v := range values {
		if !http1.ValidValue(v) {
			return fmt.Errorf("net/http: invalid %s field value for %q", section, name)
		}
	}
	return nil
}

// isWrittenSeparately reports whether a field is written by other functions. Names of framing
// fields and Host match in any case, because servers ignore case.
func isWrittenSeparately(name string) bool {
	switch len(name) {
	case len("Host"):
		return strings.EqualFold(name, "Host")
	case len("Trailer"):
		return strings.EqualFold(name, "Trailer")
	case len("User-Agent"):
		return name == "User-Agent"
	case len("Content-Length"):
		return strings.EqualFold(name, "Content-Length")
	case len("Transfer-Encoding"):
		return strings.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

// appendAddedFields writes the fields that the Client adds.
func (h *http1Codec) appendAddedFields(x *exchange, b []byte, method string) []byte {
	header := x.request.Header
	if x.requestedGzip = x.requestsGzip(method); x.requestedGzip {
		b = append(b, "Accept-Encoding: gzip\r\n"...)
		x.traceField("Accept-Encoding", "gzip")
	}
	if (x.request.Close || x.client.settings.DisableKeepAlives) && !http1.HasToken(header["Connection"], "close") &&
		(x.request.Close || !http1.HasToken(header["Connection"], "upgrade")) {
		b = append(b, "Connection: close\r\n"...)
		x.traceField("Connection", "close")
	}
	if h.proxyAuth != "" {
		b = http1.AppendField(b, "Proxy-Authorization", h.proxyAuth)
		x.traceField("Proxy-Authorization", h.proxyAuth)
	}
	return b
}

// requestsGzip reports whether the Client itself requests a compressed response.
func (x *exchange) requestsGzip(method string) bool {
	header := x.request.Header
	return !x.client.settings.DisableCompression && method != http.MethodHead &&
		firstValue(header["Accept-Encoding"]) == "" && firstValue(header["Range"]) == ""
}

func (x *exchange) traceField(name, value string) {
	if x.tracesFields() {
		x.trace.WroteHeaderField(name, []string{value})
	}
}

// tracesFields reports whether a hook receives the fields. As in net/http that is after GotConn.
func (x *exchange) tracesFields() bool {
	return x.trace != nil && x.trace.WroteHeaderField != nil && x.conn != nil
}

func firstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

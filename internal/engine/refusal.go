package engine

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"runtime"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Refusal is a request that no handler sees: it is malformed, or its head was late or incomplete.
type Refusal struct {
	// Request is the part of the request that was read. RemoteAddr, TLS, URL, Header and
	// http.LocalAddrContextKey are always set. Method, RequestURI and Proto are set if the
	// request line is well-formed; Host and Header hold the fields that precede the fault.
	Request *http.Request
	// Line is the request line as received, well-formed or not, without its line end, or the
	// part of it that has arrived. It has at most 8 KB.
	Line string
	// Status is the status of the response. If the client is slow or has left, no response was
	// sent, and Status is 408 or 400.
	Status int
	// Sent is the length of the response's body, 0 if there is no response.
	Sent int64
}

// maxRefusedLine limits Refusal.Line.
const maxRefusedLine = 8 << 10

// reportRefusal calls the server's hook with the request that c is reading.
func (c *conn) reportRefusal(status int, sent int64) {
	if c.onRefused == nil {
		return
	}
	c.giveUpLead() // the hook may block in spite of its doc, for example on a log's pipe
	tlsState, remote := c.template.TLS, c.template.RemoteAddr
	c.serveConfig.reportRequest(c.transport.raw().LocalAddr(), remote, tlsState, &c.request, c.in[c.next:c.end],
		status, sent)
}

// reportLateHead is reportRefusal for a head that is incomplete, if any of it has arrived.
func (c *conn) reportLateHead(status int) {
	if c.next < c.end {
		c.reportRefusal(status, 0)
	}
}

// reportRequest calls the hook. in is the input from the request's first byte on.
func (p *serveConfig) reportRequest(local net.Addr, remote string, state *tls.ConnectionState, h *http1.Request,
	in []byte, status int, sent int64) {
	if p.onRefused == nil || p.isFastCGI() {
		return
	}
	r := &http.Request{Header: make(http.Header), URL: new(url.URL), Body: http.NoBody, RemoteAddr: remote, TLS: state}
	line := h.Line(in)
	if h.Begun() {
		head := http1.TextOf(in)
		r.Method, r.RequestURI = head.Of(h.Method), head.Of(h.Target)
		r.ProtoMajor, r.ProtoMinor = 1, h.Minor
		r.Proto = "HTTP/1." + string(rune('0'+h.Minor))
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil && u.User == nil {
			r.URL = u
			fillHead(r, h, &head)
		}
	}
	ctx := context.WithValue(p.baseContext, http.LocalAddrContextKey, local)
	text := string(line[:min(len(line), maxRefusedLine)])
	p.callRefusedHook(Refusal{Request: r.WithContext(ctx), Line: text, Status: status, Sent: sent})
}

// callRefusedHook calls the hook. A panic is logged as a handler's is: it must cost neither other
// requests of the connection their responses, nor end the process.
func (p *serveConfig) callRefusedHook(r Refusal) {
	defer func() {
		if err := recover(); err != nil {
			stack := make([]byte, 64<<10)
			p.logf("http: panic reporting a refused request of %v: %v\n%s", r.Request.RemoteAddr, err,
				stack[:runtime.Stack(stack, false)])
		}
	}()
	p.onRefused(r)
}

// fillHead sets Host and Header from the fields that precede the fault.
func fillHead(r *http.Request, h *http1.Request, head *http1.Text) {
	if host, ok := h.Host(); ok {
		r.Host = head.Of(host)
	}
	if r.URL.Host != "" {
		r.Host = r.URL.Host
	}
	for _, f := range h.Fields {
		if f.Known != http1.NameHost {
			r.Header.Add(head.Of(f.Name), head.Of(f.Value))
		}
	}
}

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

// Refusal is a request that no handler sees: it is malformed, or its head did not arrive
// in time or was cut off.
type Refusal struct {
	// Request is the request as far as it was read, for a log. RemoteAddr, TLS, URL, Header and
	// http.LocalAddrContextKey are always there; Method, RequestURI and Proto if the request line is
	// well-formed; Host and Header as far as they came before the fault.
	Request *http.Request
	// Line is the request line as it was received, well-formed or not, without its end, or as much of
	// it as has arrived. It has at most 8 KB.
	Line string
	// Status is that of the response, or 408 or 400 if none was sent as the client is slow or gone.
	Status int
	// Sent is the length of the response's body; 0 if there is no response.
	Sent int64
}

// maxRefusedLine bounds Refusal.Line.
const maxRefusedLine = 8 << 10

// report calls the owner's hook with a request that c is at.
func (c *conn) report(status int, sent int64) {
	if c.refused == nil {
		return
	}
	c.giveUpLead() // the hook may wait in spite of what its doc says, as for a log's pipe
	tlsState, remote := c.template.TLS, c.template.RemoteAddr
	c.plan.report(c.link.raw().LocalAddr(), remote, tlsState, &c.request, c.in[c.next:c.end], status, sent)
}

// reportLate is report for a head that did not arrive whole, if anything of it did.
func (c *conn) reportLate(status int) {
	if c.next < c.end {
		c.report(status, 0)
	}
}

// report calls the hook. in is what has arrived from the request's first byte on.
func (p *plan) report(local net.Addr, remote string, state *tls.ConnectionState, h *http1.Request, in []byte, status int, sent int64) {
	if p.refused == nil || p.fastCGI() {
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
	ctx := context.WithValue(p.base, http.LocalAddrContextKey, local)
	text := string(line[:min(len(line), maxRefusedLine)])
	p.callRefused(Refusal{Request: r.WithContext(ctx), Line: text, Status: status, Sent: sent})
}

// callRefused calls the hook. Its panic is logged as a handler's is: it must not cost other requests of the
// connection their responses, nor the process its life.
func (p *plan) callRefused(r Refusal) {
	defer func() {
		if err := recover(); err != nil {
			stack := make([]byte, 64<<10)
			p.logf("http: panic reporting a refused request of %v: %v\n%s", r.Request.RemoteAddr, err, stack[:runtime.Stack(stack, false)])
		}
	}()
	p.refused(r)
}

// fillHead sets what the fields say that came before the fault.
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

package client

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"

	// maxHTTP2Servers limits the servers that are remembered to speak HTTP/2.
	maxHTTP2Servers = 10_000
)

// http2Transports sends requests over HTTP/2, by http.Transports with the Client's settings: one
// for each proxy, and one without proxy. Their DialTLSContext is dialTLS, which returns the
// connection on which the Client found that the server speaks HTTP/2.
type http2Transports struct {
	client    *Client
	isOffered bool // in TLS handshakes

	mu         sync.Mutex
	servers    map[key]bool               // their requests go to an http.Transport at once
	transports map[string]*http2Transport // by the URL of the proxy, or ""
}

// http2Transport sends the requests of one proxy, or those without a proxy.
type http2Transport struct {
	owner *http2Transports
	inner *http.Transport
	proxy string

	mu    sync.Mutex
	conns map[string][]net.Conn // handed over and not used yet, by address
}

// http2Handover is the error of an exchange whose connection speaks HTTP/2 and was handed over.
type http2Handover struct {
	to   *http2Transport
	key  key
	conn net.Conn
}

func (*http2Handover) Error() string { return "client: BUG: the request was not sent over HTTP/2" }

// configureProtocols determines the protocols to offer, as net/http does.
func (c *Client) configureProtocols() {
	c.http2.client = c
	p := c.protocols()
	c.allowsHTTP1, c.http2.isOffered = p.HTTP1(), p.HTTP2() && supportsHTTP2()
	if c.tls = c.settings.TLSClientConfig.Clone(); c.tls == nil {
		c.tls = new(tls.Config)
	}
	if c.http2.isOffered {
		protos := []string{protoHTTP2}
		if c.allowsHTTP1 {
			protos = append(protos, protoHTTP1)
		}
		for _, p := range c.tls.NextProtos {
			if !slices.Contains(protos, p) && p != protoHTTP1 {
				protos = append(protos, p)
			}
		}
		c.tls.NextProtos = protos
	} else {
		c.tls.NextProtos = slices.DeleteFunc(slices.Clone(c.tls.NextProtos),
			func(p string) bool { return p == protoHTTP2 })
	}
}

func (c *Client) protocols() http.Protocols {
	s := c.settings
	if s.Protocols != nil {
		return *s.Protocols
	}
	var p http.Protocols
	p.SetHTTP1(true)
	custom := s.TLSClientConfig != nil || s.DialContext != nil || s.DialTLSContext != nil
	p.SetHTTP2(s.ForceAttemptHTTP2 || !custom)
	return p
}

// supportsHTTP2 reports whether net/http supports HTTP/2. A build tag or GODEBUG can disable it.
func supportsHTTP2() bool {
	var p http.Protocols
	p.SetHTTP2(true)
	t := &http.Transport{Protocols: &p}
	t.CloseIdleConnections() // makes it configure itself
	return t.TLSNextProto[protoHTTP2] != nil
}

// http2TransportFor returns the transport that sends requests for a key, or nil if the Client does.
func (c *Client) http2TransportFor(k *key) *http2Transport {
	h := &c.http2
	if c.allowsHTTP1 && (!h.isOffered || !k.tls) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !c.allowsHTTP1:
		return h.transport("") // it selects proxies itself
	case !h.servers[*k]:
		return nil
	}
	return h.transport(k.proxy)
}

// handOver hands over a connection that speaks HTTP/2.
func (h *http2Transports) handOver(k *key, nc net.Conn) *http2Handover {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.servers) >= maxHTTP2Servers {
		clear(h.servers)
	}
	if h.servers == nil {
		h.servers = make(map[key]bool)
	}
	h.servers[*k] = true
	o := h.transport(k.proxy)
	o.mu.Lock()
	o.conns[k.addr()] = append(o.conns[k.addr()], nc)
	o.mu.Unlock()
	return &http2Handover{to: o, key: *k, conn: nc}
}

// transport returns the transport for a proxy, or for "" the one without a proxy. The caller holds
// mu.
func (h *http2Transports) transport(proxy string) *http2Transport {
	if o := h.transports[proxy]; o != nil {
		return o
	}
	o := &http2Transport{owner: h, proxy: proxy, conns: make(map[string][]net.Conn)}
	o.inner = h.client.newHTTPTransport()
	if h.client.allowsHTTP1 { // the Client selects proxies and dials
		o.inner.Proxy, o.inner.DialTLSContext = nil, o.dialTLS
	}
	if h.transports == nil {
		h.transports = make(map[string]*http2Transport)
	}
	h.transports[proxy] = o
	return o
}

// newHTTPTransport returns an http.Transport with the Client's settings.
func (c *Client) newHTTPTransport() *http.Transport {
	t, p := new(http.Transport), c.protocols()
	CopyFields(t, c.settings)
	t.DialContext, t.TLSClientConfig, t.Protocols = c.dialAddr, c.settings.TLSClientConfig.Clone(), &p
	return t
}

// dialTLS returns a connection that was handed over, or opens one.
func (o *http2Transport) dialTLS(ctx context.Context, _, addr string) (net.Conn, error) {
	o.mu.Lock()
	if waiting := o.conns[addr]; len(waiting) > 0 {
		if o.conns[addr] = waiting[1:]; len(waiting) == 1 {
			delete(o.conns, addr)
		}
		o.mu.Unlock()
		return waiting[0], nil
	}
	o.mu.Unlock()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	nc, _, err := o.owner.client.dial(ctx, &key{proxy: o.proxy, host: host, port: port, tls: true}, nil)
	return nc, err
}

// roundTrip sends the request of an exchange whose connection was handed over.
func (h *http2Handover) roundTrip(x *exchange) (*http.Response, error) {
	r := x.request
	if x.bodyBuffered || x.isRetry && x.body != nil { // its body was read
		x.body.Close()
		body, err := x.getBody()
		if err != nil {
			h.withdraw()
			return nil, err
		}
		r = r.WithContext(x.ctx)
		r.Body = body
	}
	resp, err := h.to.roundTrip(r)
	if resp != nil {
		resp.Request = x.request
	}
	h.withdraw()
	return resp, err
}

// withdraw closes the connection that was handed over, unless the transport has taken it.
func (h *http2Handover) withdraw() {
	o, addr := h.to, h.key.addr()
	o.mu.Lock()
	waiting := o.conns[addr]
	i := slices.Index(waiting, h.conn)
	switch {
	case i >= 0 && len(waiting) == 1:
		delete(o.conns, addr)
	case i >= 0:
		o.conns[addr] = slices.Delete(waiting, i, i+1)
	}
	o.mu.Unlock()
	if i >= 0 {
		h.conn.Close()
	}
}

func (o *http2Transport) roundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Request = r          // net/http returns a copy if the request has a body and the connection was open
	if resp.ProtoMajor == 1 { // the server no longer speaks HTTP/2
		o.owner.forgetURL(r.URL, o.proxy)
	}
	return resp, nil
}

// forgetURL removes the server in a URL from those that speak HTTP/2.
func (h *http2Transports) forgetURL(u *url.URL, proxy string) {
	k := key{proxy: proxy, host: u.Hostname(), port: u.Port(), tls: true}
	if k.port == "" {
		k.port = "443"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.servers, k)
}

func (h *http2Transports) closeIdle() {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.transports))
	h.mu.Unlock()
	for _, o := range all { // not under mu: closing over TLS may wait for the server
		o.inner.CloseIdleConnections()
	}
}

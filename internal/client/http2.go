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

	// maxKnown bounds the servers that are known to speak HTTP/2.
	maxHTTP2Servers = 10_000
)

// http2 is what sends requests over HTTP/2: http.Transports with the same settings, one for each
// way to servers. They are told how to dial, and are given the first connection that was found
// to speak HTTP/2.
type http2Transports struct {
	client    *Client
	isOffered bool // HTTP/2 is negotiated

	mu         sync.Mutex
	servers    map[key]bool // those whose requests go there at once
	transports map[string]*http2Transport
}

// other is an http.Transport in place of ours.
type http2Transport struct {
	owner *http2Transports
	inner *http.Transport
	proxy string

	mu    sync.Mutex
	conns map[string][]net.Conn // by address
}

// handOver is the error of an exchange whose connection speaks HTTP/2.
type handOff struct {
	to   *http2Transport
	key  key
	conn net.Conn
}

func (*handOff) Error() string { return "client: BUG: the request was to be sent over HTTP/2" }

// configureProtocols decides which protocols are offered, as net/http does.
func (c *Client) configureProtocols() {
	c.http2.client = c
	p := c.protocols()
	c.allowsHTTP1, c.http2.isOffered = p.HTTP1(), p.HTTP2()
	if c.tls = c.TLSClientConfig.Clone(); c.tls == nil {
		c.tls = new(tls.Config)
	}
	if c.http2.isOffered && !c.canHTTP2() {
		c.http2.isOffered = false
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
		c.tls.NextProtos = slices.DeleteFunc(slices.Clone(c.tls.NextProtos), func(p string) bool { return p == protoHTTP2 })
	}
}

func (c *Client) protocols() http.Protocols {
	if c.Protocols != nil {
		return *c.Protocols
	}
	var p http.Protocols
	p.SetHTTP1(true)
	custom := c.TLSClientConfig != nil || c.DialContext != nil || c.DialTLSContext != nil
	p.SetHTTP2(c.ForceAttemptHTTP2 || !custom)
	return p
}

// canHTTP2 reports whether net/http has HTTP/2: it can be built without, and GODEBUG can turn it
// off.
func (c *Client) canHTTP2() bool {
	var p http.Protocols
	p.SetHTTP2(true)
	t := &http.Transport{Protocols: &p}
	t.CloseIdleConnections() // which has it configure itself
	return t.TLSNextProto[protoHTTP2] != nil
}

// other returns what sends requests for a key in our place, or nil.
func (c *Client) http2TransportFor(k *key) *http2Transport {
	h := &c.http2
	if c.allowsHTTP1 && (!h.isOffered || !k.tls) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !c.allowsHTTP1:
		return h.transport("") // which knows the proxies itself
	case !h.servers[*k]:
		return nil
	}
	return h.transport(k.proxy)
}

// take hands a connection over that speaks HTTP/2.
func (h *http2Transports) handOff(k *key, nc net.Conn) *handOff {
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
	return &handOff{to: o, key: *k, conn: nc}
}

// forget drops what is known of a server.
func (h *http2Transports) forget(k *key) {
	h.mu.Lock()
	delete(h.servers, *k)
	h.mu.Unlock()
}

// way returns the Transport for requests through a proxy, or through none. The caller holds mu.
func (h *http2Transports) transport(proxy string) *http2Transport {
	if o := h.transports[proxy]; o != nil {
		return o
	}
	o := &http2Transport{owner: h, proxy: proxy, conns: make(map[string][]net.Conn)}
	o.inner = h.client.newHTTPTransport()
	if h.client.allowsHTTP1 { // we choose proxies, and dial
		o.inner.Proxy, o.inner.DialTLSContext = nil, o.dialTLS
	}
	if h.transports == nil {
		h.transports = make(map[string]*http2Transport)
	}
	h.transports[proxy] = o
	return o
}

// like is an http.Transport with our settings.
func (c *Client) newHTTPTransport() *http.Transport {
	p := c.protocols()
	return &http.Transport{
		Proxy: c.Proxy, OnProxyConnectResponse: c.OnProxyConnectResponse, ProxyConnectHeader: c.ProxyConnectHeader, GetProxyConnectHeader: c.GetProxyConnectHeader,
		DialContext: c.dialAddr, DialTLSContext: c.DialTLSContext,
		TLSClientConfig: c.TLSClientConfig.Clone(), TLSHandshakeTimeout: c.TLSHandshakeTimeout,
		DisableKeepAlives: c.DisableKeepAlives, DisableCompression: c.DisableCompression,
		MaxIdleConns: c.MaxIdleConns, MaxIdleConnsPerHost: c.MaxIdleConnsPerHost, MaxConnsPerHost: c.MaxConnsPerHost,
		IdleConnTimeout: c.IdleConnTimeout, ResponseHeaderTimeout: c.ResponseHeaderTimeout, ExpectContinueTimeout: c.ExpectContinueTimeout,
		MaxResponseHeaderBytes: c.MaxResponseHeaderBytes, WriteBufferSize: c.WriteBufferSize, ReadBufferSize: c.ReadBufferSize,
		HTTP2: c.HTTP2, Protocols: &p,
	}
}

// dialTLS returns a connection that was handed over, or else a new one.
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
func (h *handOff) roundTrip(x *exchange) (*http.Response, error) {
	r := x.request
	if x.bodyBuffered { // its body was read
		body, err := r.GetBody()
		if err != nil {
			h.conn.Close()
			return nil, err
		}
		r = r.WithContext(x.ctx)
		r.Body = body
	}
	resp, err := h.to.roundTrip(r)
	if resp != nil {
		resp.Request = x.request
	}
	h.to.mu.Lock()
	waiting := h.to.conns[h.key.addr()]
	i := slices.Index(waiting, h.conn)
	if i >= 0 { // it was not needed
		h.to.conns[h.key.addr()] = slices.Delete(waiting, i, i+1)
	}
	h.to.mu.Unlock()
	if i >= 0 {
		h.conn.Close()
	}
	return resp, err
}

func (o *http2Transport) roundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.inner.RoundTrip(r)
	if err == nil && resp.ProtoMajor == 1 { // it speaks HTTP/2 no longer
		o.owner.forgetURL(r.URL, o.proxy)
	}
	return resp, err
}

// forgetURL drops what is known of the server that a URL names.
func (h *http2Transports) forgetURL(u *url.URL, proxy string) {
	k := key{proxy: proxy, host: u.Hostname(), port: u.Port(), tls: true}
	if k.port == "" {
		k.port = "443"
	}
	h.forget(&k)
}

func (h *http2Transports) closeIdle() {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.transports))
	h.mu.Unlock()
	for _, o := range all { // closing over TLS may wait for the server
		o.inner.CloseIdleConnections()
	}
}

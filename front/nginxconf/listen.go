package nginxconf

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// listen is an address of a server.
type listen struct {
	*conf.Listen // of the Host, from server on
	server       *scope
	host         int // index in Config.Hosts
	directive    *syntax.Directive
	options      *syntax.Directive // sets the socket's parameters, which is allowed once for an address; or nil
	http2        bool              // the directive http2 of the server; HTTP2 is the parameter of listen
}

func (t *translator) listensOf(s *scope, server *syntax.Directive) []*listen {
	var all []*listen
	for _, d := range s.own("listen") {
		overUDP := slices.Contains(d.Args[1:], "quic")
		if overUDP && !t.options.HTTP3 {
			t.omit(d, "parameter \"quic\" is not supported: %s", noHTTP3)
			continue
		}
		addrs, err := t.listenAddrs(d)
		if err == nil && overUDP {
			addrs, err = quicAddrs(addrs)
		}
		if err != nil {
			t.errorf(d, "%v", err)
			continue
		}
		for _, addr := range addrs {
			l := t.listen(d, addr)
			if at := slices.IndexFunc(all, func(o *listen) bool { return o.Addr == l.Addr }); at >= 0 {
				t.errorf(d, "duplicate address %s in this server (first one at %s)", l.Addr, all[at].directive.Where())
				continue
			}
			all = append(all, l)
		}
	}
	if s.own("listen") == nil {
		l := &listen{Listen: &conf.Listen{Addr: fmt.Sprintf("*:%d", t.defaultPort())}, directive: server}
		t.remark(server, "no listen: the server listens at %s, as in nginx", l.Addr)
		all = append(all, l)
	}
	secure := s.flag("ssl", false)
	if secure {
		t.warn(s.one("ssl"), "deprecated: use the parameter ssl of listen")
	}
	certs, issued := t.certificates(s), t.issued(s)
	hasHTTP3 := t.hasHTTP3(s)
	for _, l := range all {
		l.server, l.host = s, len(t.config.Hosts)
		l.TLS = l.TLS || secure
		if grammar.IsQUIC(l.Addr) {
			l.TLS, l.HTTP3 = true, hasHTTP3
		} else {
			l.http2 = s.flag("http2", false)
		}
		l.Certs, l.Issued = certs, issued
	}
	return all
}

func (t *translator) defaultPort() int {
	switch {
	case t.options.DefaultPort != 0:
		return t.options.DefaultPort
	case os.Getuid() == 0:
		return 80
	}
	return 8000
}

// listen parses a listen directive for one of its addresses.
func (t *translator) listen(d *syntax.Directive, addr string) *listen {
	l := &listen{Listen: &conf.Listen{Addr: addr, IPv6Only: isIPv6(addr)}, directive: d}
	const ofKernel, overTCP = "the kernel's default is used", "it concerns TCP only"
	ipv6Only := l.socket(value("ipv6only=", &l.IPv6Only, onOff))
	if !isIPv6(addr) {
		ipv6Only.set = func(text string) error {
			t.warn(d, "%s is ignored: %s is not an IPv6 address", "ipv6only="+text, addr)
			_, err := onOff(text)
			return err
		}
	}
	known := []param{
		word("default_server", &l.Default), word("default", &l.Default),
		l.socket(param{"bind", func(string) error { return nil }}),
		ipv6Only,
		l.socket(t.ignoredParam(d, "rcvbuf=", ofKernel, parses(grammar.ParseSize))),
		l.socket(t.ignoredParam(d, "sndbuf=", ofKernel, parses(grammar.ParseSize))),
		l.socket(t.unsupportedParam(d, "setfib=", "remove it: "+ofKernel)),
	}
	if grammar.IsQUIC(addr) {
		for _, name := range []string{"ssl", "http2", "proxy_protocol"} {
			known = append(known, param{name, func(string) error { return errors.New("incompatible with quic") }})
		}
		for _, name := range []string{"backlog=", "deferred", "fastopen=", "so_keepalive=", "accept_filter=", "multipath"} {
			known = append(known, l.socket(t.ignoredParam(d, name, overTCP, nil)))
		}
		known = append(known, param{"quic", func(string) error { return nil }},
			// nginx needs a socket for each worker process
			l.socket(t.ignoredParam(d, "reuseport", "a single process has all connections", nil)))
	} else {
		known = append(known, word("ssl", &l.TLS), word("http2", &l.HTTP2), word("proxy_protocol", &l.Proxied),
			l.socket(word("reuseport", &l.ReusePort)), l.socket(number("backlog=", &l.Backlog, 1)),
			l.socket(t.ignoredParam(d, "deferred", ofKernel, nil)),
			l.socket(t.ignoredParam(d, "multipath", ofKernel, nil)),
			l.socket(t.ignoredParam(d, "fastopen=", ofKernel, parses(grammar.ParseNumber))),
			l.socket(t.ignoredParam(d, "so_keepalive=", ofKernel, checkKeepAlive)),
			l.socket(t.ignoredParam(d, "accept_filter=", "only FreeBSD supports it", nil)))
	}
	t.params(d, d.Args[1:], known...)
	return l
}

// socket returns a parameter that is one of the socket.
func (l *listen) socket(p param) param {
	return param{p.name, func(value string) error {
		l.options = l.directive
		return p.set(value)
	}}
}

// listenAddrs normalizes an address: PORT, HOST, HOST:PORT, [IPv6], [IPv6]:PORT, *:PORT or
// unix:PATH, where PORT may be FIRST-LAST. A name or a range of ports may result in several
// addresses.
func (t *translator) listenAddrs(d *syntax.Directive) ([]string, error) {
	text := d.Args[0]
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" {
			return nil, fmt.Errorf("missing path (must be unix:PATH)")
		}
		return []string{"unix:" + t.path(d, path)}, nil
	}
	if _, _, err := ports(text); err == nil {
		text = "*:" + text
	}
	host, port := grammar.SplitPort(text, "80")
	first, last, err := ports(port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", grammar.Quote(text), err)
	}
	if host == "*" {
		host = "0.0.0.0"
	}
	found, err := t.hostAddrs(host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", grammar.Quote(text), err)
	}
	var addrs []string
	for n := int(first); n <= int(last); n++ {
		for _, addr := range found {
			if addr == netip.IPv4Unspecified() {
				addrs = append(addrs, fmt.Sprintf("*:%d", n))
			} else {
				addrs = append(addrs, netip.AddrPortFrom(addr, uint16(n)).String())
			}
		}
	}
	return addrs, nil
}

// ports parses a port, or a range of ports FIRST-LAST.
func ports(text string) (first, last uint16, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	if first, err = grammar.ParsePort(from); err == nil {
		last, err = grammar.ParsePort(to)
	}
	if err == nil && last < first {
		err = errors.New("invalid range of ports: the first one is greater than the last one")
	}
	return first, last, err
}

// hostAddrs returns the addresses of a host.
func (t *translator) hostAddrs(host string) ([]netip.Addr, error) {
	inner, bracketed := strings.CutPrefix(host, "[")
	addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	switch {
	case err == nil && addr.Is6() == bracketed:
		return []netip.Addr{addr}, nil
	case err == nil || bracketed:
		return nil, errors.New("invalid address: brackets are required for IPv6, and only allowed there")
	}
	return t.hosts.find(host)
}

// checkKeepAlive checks whether nginx would accept the value of so_keepalive.
func checkKeepAlive(value string) error {
	if value == "on" || value == "off" {
		return nil
	}
	parts := strings.Split(value, ":")
	if len(parts) > 3 || strings.Trim(value, ":") == "" {
		return errors.New("must be on, off, or IDLE:INTERVAL:COUNT with optional parts")
	}
	for i, part := range parts {
		var err error
		switch {
		case part == "":
		case i < 2:
			_, err = grammar.ParseSeconds(part)
		default:
			_, err = grammar.ParseNumber(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// address is a listening address.
type address struct {
	listens []*listen // of its servers
	main    *listen   // of the default server
	socket  *listen   // with the parameters of the socket, if one has them
	names   map[string]*syntax.Directive
}

// listeners determines the addresses, and the settings that all servers of an address share.
func (t *translator) listeners() {
	var order []*address
	at := make(map[string]*address)
	for _, l := range t.listens {
		a := at[l.Addr]
		if a == nil {
			a = &address{main: l, socket: l, names: make(map[string]*syntax.Directive)}
			at[l.Addr] = a
			order = append(order, a)
		} else {
			t.merge(a, l)
		}
		a.listens = append(a.listens, l)
		t.sameNames(a, l)
	}
	for _, a := range order {
		t.agree(a)
	}
	for _, a := range order {
		l := t.listener(a)
		if all := at[grammar.Wildcard(l.Addr)]; all != nil {
			t.belowWildcard(a, &l, all)
		}
		t.process.Listeners = append(t.process.Listeners, l)
	}
}

// belowWildcard reports settings without effect at an address whose connections the socket of all
// addresses accepts.
func (t *translator) belowWildcard(a *address, l *Listener, all *address) {
	if a.socket.options != nil {
		t.remark(a.socket.options, "the parameters of the socket are ignored: that of %s accepts the connections",
			all.main.Addr)
	}
	if !grammar.IsQUIC(l.Addr) {
		return
	}
	if s := t.listener(all); l.HTTP3Retry != s.HTTP3Retry || l.HTTP3Streams != s.HTTP3Streams ||
		l.HTTP3Window != s.HTTP3Window {
		t.warn(a.main.directive, "settings of QUIC connections, such as quic_retry, are those of %s, whose socket has them",
			all.main.Addr)
	}
}

// merge determines whether another server is the default one of an address, and whether it has the
// parameters of the socket.
func (t *translator) merge(a *address, l *listen) {
	if l.Default {
		if !a.main.Default {
			a.main = l
		} else {
			t.errorf(l.directive, "duplicate default server for %s (first one at %s)", l.Addr, a.main.directive.Where())
		}
	}
	if l.options != nil {
		if first := a.socket.options; first != nil {
			t.errorf(l.directive, "duplicate socket parameters for %s (first ones at %s)", l.Addr, first.Where())
		}
		a.socket = l
	}
}

func (t *translator) sameNames(a *address, l *listen) {
	for _, name := range t.config.Hosts[l.host].Names {
		if other := a.names[name]; other != nil {
			t.warn(l.directive, "conflicting server name %s at %s, ignored here (first one at %s)", grammar.Quote(name),
				l.Addr, other.Where())
			continue
		}
		a.names[name] = l.directive
	}
}

// agree makes the servers of an address share its settings, and reports missing certificates. As in
// nginx, all of them support HTTP/2 if a listen has that parameter; otherwise those with http2 on
// do. A server without a certificate uses the default server's handshake, unless that rejects
// handshakes.
func (t *translator) agree(a *address) {
	var shared conf.Listen
	for _, l := range a.listens {
		shared.TLS, shared.HTTP2 = shared.TLS || l.TLS, shared.HTTP2 || l.HTTP2
		shared.Proxied = shared.Proxied || l.Proxied
	}
	socket := *a.socket.Listen
	for _, l := range a.listens {
		l.TLS, l.HTTP2, l.Proxied = shared.TLS, shared.HTTP2 || l.http2, shared.Proxied
		l.Backlog, l.ReusePort, l.IPv6Only = socket.Backlog, socket.ReusePort, socket.IPv6Only
		if l.TLS && l.Certs == nil && l.Issued == nil && !t.config.Hosts[l.host].RejectHandshake &&
			(l == a.main || l.server.flag("ssl", false) || t.config.Hosts[a.main.host].RejectHandshake) {
			t.errorf(l.directive, "TLS requires ssl_certificate and ssl_certificate_key in the server")
		}
	}
}

func (t *translator) listener(a *address) Listener {
	l := NewListener(*a.main.Listen)
	l.Default = true
	// without TLS no client names its server, and the default server's http2 counts
	l.HTTP2 = l.HTTP2 || l.TLS && slices.ContainsFunc(a.listens, func(other *listen) bool { return other.HTTP2 })
	t.connection(a.main.server, &l)
	return l
}

// keepAlive returns the number of requests that a connection may serve, and its maximum age. A
// conf.Config cannot express "none", so 0 becomes the minimum.
func (t *translator) keepAlive(s *scope) (requests int, age time.Duration) {
	for _, d := range s.own("keepalive_timeout") {
		for _, arg := range d.Args {
			_, err := grammar.ParseTime(arg)
			t.check(d, err)
		}
	}
	return cmp.Or(s.number("keepalive_requests", 1), 1000), cmp.Or(s.time("keepalive_time"), time.Hour)
}

func (t *translator) connection(s *scope, l *Listener) {
	l.HeaderTimeout = cmp.Or(s.time("client_header_timeout"), l.HeaderTimeout)
	l.SendTimeout = cmp.Or(s.time("send_timeout"), l.SendTimeout)
	if d := s.one("keepalive_timeout"); d != nil {
		l.IdleTimeout, _ = grammar.ParseTime(d.Args[0])
	}
	if d := s.one("large_client_header_buffers"); d != nil {
		l.HeaderBytes = s.buffers(d.Name)
		if l.HeaderFieldBytes, _ = grammar.ParseSize(d.Args[1]); !l.HTTP2 {
			l.HeaderFieldBytes = max(l.HeaderFieldBytes, clientHeaderBuffer)
		}
	}
	l.HTTP2Streams = cmp.Or(s.number("http2_max_concurrent_streams", 1), l.HTTP2Streams)
	if n := s.size("http2_body_preread_size", 1); n > 0 {
		l.HTTP2Window = max(leastHTTP2Window, n)
	}
	if grammar.IsQUIC(l.Addr) {
		t.quic(s, l)
	}
}

const (
	// clientHeaderBuffer is nginx's client_header_buffer_size: HTTP/1 needs no large buffer for a
	// head that fits in it.
	clientHeaderBuffer = 1 << 10
	// leastHTTP2Window is the least window of a stream. nginx opens a smaller one further when a
	// location reads the body; tare keeps its size, which limits the speed of uploads.
	leastHTTP2Window = 64 << 10
)

// noHTTP3 is why quic and http3 are rejected without Options.HTTP3.
const noHTTP3 = "this program was built without HTTP/3 (build it with -tags http3); browsers fall back to HTTP/2"

func isIPv6(addr string) bool {
	return strings.HasPrefix(strings.TrimPrefix(addr, grammar.QUICPrefix), "[")
}

// quicAddrs returns the UDP sockets of addresses.
func quicAddrs(addrs []string) ([]string, error) {
	for i, addr := range addrs {
		if strings.HasPrefix(addr, "unix:") {
			return nil, errors.New("quic requires an IP address: it is not supported on unix sockets")
		}
		addrs[i] = grammar.QUICPrefix + addr
	}
	return addrs, nil
}

// hasHTTP3 reports whether a server speaks HTTP/3. As in nginx that is the default where a listen
// has quic.
func (t *translator) hasHTTP3(s *scope) bool {
	hasHTTP3 := s.flag("http3", true)
	if d := s.one("http3"); d != nil && hasHTTP3 && !t.options.HTTP3 {
		t.omit(d, "%s", noHTTP3)
	}
	return hasHTTP3
}

// checkQUICVersion reports an address for HTTP/3 whose server does not have TLS 1.3, as nginx does.
func (t *translator) checkQUICVersion(s *scope, all []*listen, config *tls.Config) {
	if config == nil || config.MaxVersion == 0 || config.MaxVersion >= tls.VersionTLS13 {
		return
	}
	if slices.ContainsFunc(all, func(l *listen) bool { return grammar.IsQUIC(l.Addr) }) {
		t.errorf(s.one("ssl_protocols"), "listen with quic requires TLSv1.3")
	}
}

func (t *translator) quic(s *scope, l *Listener) {
	l.HTTP3Retry = s.flag("quic_retry", false)
	l.HTTP3Streams = cmp.Or(s.number("http3_max_concurrent_streams", 1), l.HTTP3Streams)
	l.HTTP3Window = cmp.Or(s.size("http3_stream_buffer_size", 1), l.HTTP3Window)
}

package nginxconf

import (
	"cmp"
	"crypto/tls"
	"errors"
	"strings"
)

// noHTTP3 is why quic and http3 are rejected without Options.HTTP3.
const noHTTP3 = "this program was built without HTTP/3 (build it with -tags http3); browsers fall back to HTTP/2"

// quicPrefix starts the addresses of UDP sockets: see conf.Listen.
const quicPrefix = "quic:"

func isQUIC(addr string) bool { return strings.HasPrefix(addr, quicPrefix) }

func isIPv6(addr string) bool { return strings.HasPrefix(strings.TrimPrefix(addr, quicPrefix), "[") }

// quicAddrs returns the UDP sockets of addresses.
func quicAddrs(addrs []string) ([]string, error) {
	for i, addr := range addrs {
		if strings.HasPrefix(addr, "unix:") {
			return nil, errors.New("quic requires an IP address: it is not supported on unix sockets")
		}
		addrs[i] = quicPrefix + addr
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
func (t *translator) checkQUICVersion(s *scope, all []listen, config *tls.Config) {
	if config == nil || config.MaxVersion == 0 || config.MaxVersion >= tls.VersionTLS13 {
		return
	}
	for i := range all {
		if isQUIC(all[i].Addr) {
			t.errorf(s.one("ssl_protocols"), "listen with quic requires TLSv1.3")
			return
		}
	}
}

// defaultQUICStreams and defaultQUICBytes are nginx's.
const (
	defaultQUICStreams = 128
	defaultQUICBytes   = 64 << 10
)

func (t *translator) quic(s *scope, l *Listener) {
	l.HTTP3Retry = s.flag("quic_retry", false)
	l.HTTP3Streams = cmp.Or(s.number("http3_max_concurrent_streams", 1), defaultQUICStreams)
	l.HTTP3Window = cmp.Or(s.size("http3_stream_buffer_size", 1), defaultQUICBytes)
	if d := s.one("quic_host_key"); d != nil {
		l.HTTP3HostKey, _ = t.read(d) // it reports errors
		if len(l.HTTP3HostKey) == 0 {
			t.errorf(d, "the file is empty: it must contain random bytes")
		}
	}
}

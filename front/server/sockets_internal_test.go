package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
)

// Without issuers of certificates, servers call the front.Handler itself, which then need not copy
// the requests of bound handlers.
func TestServersCallTheFrontItself(t *testing.T) {
	host := conf.Host{Listen: []conf.Listen{{Addr: "unix:" + filepath.Join(t.TempDir(), "socket")}}}
	ctx, cancel := context.WithCancel(t.Context())
	var s *Server
	s = New(&Config{Front: conf.Config{Hosts: []conf.Host{host}}}, Options{Stdout: io.Discard, Stderr: io.Discard,
		NoSignals: true, Ready: func() {
			if s.sockets[0].active[0].server.Handler != http.Handler(s.front) {
				t.Errorf("the servers call a %T", s.sockets[0].active[0].server.Handler)
			}
			cancel()
		}})
	testkit.Check(t, s.Run(ctx))
}

// The addresses of hosts are listened on once, with the properties that one of the hosts requires.
// Single addresses follow that of all addresses, whose socket accepts for them.
func TestAddressesOfHostsShareSockets(t *testing.T) {
	hosts := []conf.Host{
		{Listen: []conf.Listen{{Addr: "127.0.0.1:80"}, {Addr: "[::1]:80"}, {Addr: "quic:127.0.0.1:80"}}},
		{Listen: []conf.Listen{{Addr: "*:80"}, {Addr: "127.0.0.1:80", TLS: true}, {Addr: "unix:/s"}}},
		{Listen: []conf.Listen{{Addr: "127.0.0.1:80", Proxied: true}, {Addr: "127.0.0.1:81"}, {Addr: "quic:*:80"}}},
	}
	all := listenersOf(hosts)
	var got []string
	for _, ofQUIC := range []bool{false, true} {
		for _, listeners := range socketsOf(all, ofQUIC) {
			text := ""
			for _, l := range listeners {
				text += fmt.Sprintf("%s %v %v, ", l.Addr, l.TLS, l.Proxied)
			}
			got = append(got, text)
		}
	}
	want := []string{"[::1]:80 false false, ", "*:80 false false, 127.0.0.1:80 true true, ", "unix:/s false false, ",
		"127.0.0.1:81 false false, ", "quic:*:80 false false, quic:127.0.0.1:80 false false, "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A host allows a protocol at an address as its most specific listen does. That of all IPv6
// addresses matters for IPv4 only if the port has no other.
func TestProtocolsAreThoseOfTheAddress(t *testing.T) {
	const spoken = "spoken "
	for local, listens := range map[string]map[string]bool{
		"127.0.0.1:80": {"*:80": false, spoken + "*:80": true, "*:80, " + spoken + "[::]:80": false,
			spoken + "*:80, [::]:80": true, spoken + "[::]:80": true, "127.0.0.1:80, " + spoken + "*:80": false,
			spoken + "*:81": false},
		"[::1]:80":           {spoken + "*:80, [::]:80": false, spoken + "[::]:80": true, "[::1]:80, " + spoken + "[::]:80": false},
		"[fe80::1%eth0]:80":  {"[::]:80, " + spoken + "[fe80::1]:80": true, spoken + "[fe80::1%eth1]:80": false},
		"[::ffff:1.2.3.4]:9": {"[::]:9, " + spoken + "1.2.3.4:9": true},
	} {
		for text, want := range listens {
			var host, overUDP conf.Host
			for addr := range strings.SplitSeq(text, ", ") {
				addr, speaks := strings.CutPrefix(addr, spoken)
				host.Listen = append(host.Listen, conf.Listen{Addr: addr, HTTP2: speaks})
				overUDP.Listen = append(overUDP.Listen, conf.Listen{Addr: "quic:" + addr, HTTP3: speaks})
			}
			at := netip.MustParseAddrPort(local)
			if got := listenAt(&host, net.TCPAddrFromAddrPort(at)).HTTP2; got != want {
				t.Errorf("%s, with %s: HTTP/2 %v, want %v", local, text, got, want)
			}
			if got := listenAt(&overUDP, net.UDPAddrFromAddrPort(at)).HTTP3; got != want {
				t.Errorf("%s, with %s: HTTP/3 %v, want %v", local, text, got, want)
			}
		}
	}
}

// Together with the timeout of its acknowledgment, a PING limits the time for HEADERS like
// client_header_timeout, within bounds.
func TestPingIntervalBoundsHeaders(t *testing.T) {
	for header, want := range map[time.Duration]time.Duration{
		0: 75 * time.Second, time.Second: 30 * time.Second, 40 * time.Second: 40 * time.Second,
		time.Minute: time.Minute, time.Hour: 75 * time.Second,
	} {
		if got := pingInterval(header) + pingTimeout; got != want {
			t.Errorf("%v: %v, want %v", header, got, want)
		}
	}
}

// A reload reports the settings that only a start applies, and no others.
func TestReloadReportsWhatNeedsARestart(t *testing.T) {
	var config Config
	config.Process = nginxconf.Process{User: "a", Files: 9, Listeners: []nginxconf.Listener{
		{Listen: conf.Listen{Addr: "[::]:80", IPv6Only: true}}, {Listen: conf.Listen{Addr: "[::1]:80", IPv6Only: true}},
		{Listen: conf.Listen{Addr: "quic:*:443"}, HTTP3HostKey: []byte("a")},
	}}
	changed := config
	changed.Process = nginxconf.Process{User: "a", Group: "b", Listeners: []nginxconf.Listener{
		{Listen: conf.Listen{Addr: "[::]:80"}}, {Listen: conf.Listen{Addr: "[::1]:80"}},
		{Listen: conf.Listen{Addr: "quic:*:443"}, HTTP3HostKey: []byte("b")}, {Listen: conf.Listen{Addr: "[::]:81"}},
	}}
	s := New(&config, Options{})
	want := []string{"user", "worker_rlimit_nofile", "listen [::]:80: ipv6only", "listen quic:*:443: quic_host_key"}
	if got := s.needRestart(&config, &changed); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := s.needRestart(&config, &config); got != nil {
		t.Errorf("without a change: %q", got)
	}
}

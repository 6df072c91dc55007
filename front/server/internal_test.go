package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// Without issuers of certificates, servers call the front.Handler itself, which then need not copy
// the requests of bound handlers.
func TestServersCallTheFrontItself(t *testing.T) {
	host := conf.Host{Listen: []conf.Listen{{Addr: "unix:" + filepath.Join(t.TempDir(), "socket")}}}
	ctx, cancel := context.WithCancel(t.Context())
	var s *Server
	s = New(&Config{Front: conf.Config{Hosts: []conf.Host{host}}}, Options{Stdout: io.Discard, Stderr: io.Discard,
		NoSignals: true, Ready: func() {
			if s.sockets[0].active[0].Handler != http.Handler(s.front) {
				t.Errorf("the servers call a %T", s.sockets[0].active[0].Handler)
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
	testkit.Equal(t, got, want)
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
			testkit.Equal(t, listenAt(&host, net.TCPAddrFromAddrPort(at)).HTTP2, want, local, "with", text, "HTTP/2")
			got := listenAt(&overUDP, net.UDPAddrFromAddrPort(at)).HTTP3
			testkit.Equal(t, got, want, "HTTP/3 at", local, "with", text)
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
		testkit.Equal(t, pingInterval(header)+pingTimeout, want, header)
	}
}

// A reload reports the settings that only a start applies, and no others.
func TestReloadReportsWhatNeedsARestart(t *testing.T) {
	var config Config
	config.Process = nginxconf.Process{User: "a", Files: 9, Listeners: []nginxconf.Listener{
		{Listen: conf.Listen{Addr: "[::]:80", IPv6Only: true}}, {Listen: conf.Listen{Addr: "[::1]:80", IPv6Only: true}},
	}}
	changed := config
	changed.Process = nginxconf.Process{User: "a", Group: "b", Listeners: []nginxconf.Listener{
		{Listen: conf.Listen{Addr: "[::]:80"}}, {Listen: conf.Listen{Addr: "[::1]:80"}}, {Listen: conf.Listen{Addr: "[::]:81"}},
	}}
	s := New(&config, Options{})
	want := []string{"user", "worker_rlimit_nofile", "listen [::]:80: ipv6only"}
	testkit.Equal(t, s.needRestart(&config, &changed), want)
	testkit.Equal(t, s.needRestart(&config, &config), nil)
}

// resumes makes a handshake, and reports whether it resumed a session. The server's byte makes the
// client read its session.
func resumes(t *testing.T, server, client *tls.Config) bool {
	t.Helper()
	l := testkit.Value(tls.Listen("tcp", "127.0.0.1:0", server))(t)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err == nil {
			_, err = nc.Write([]byte("x"))
			nc.Close()
		}
		done <- err
	}()
	conn := testkit.Value(tls.Dial("tcp", l.Addr().String(), client))(t)
	defer conn.Close()
	testkit.Value(io.ReadFull(conn, make([]byte, 1)))(t)
	testkit.Must(t, <-done)
	return conn.ConnectionState().DidResume
}

// tlsConfigs returns the configurations of hosts with Listens, and a client's with a cache.
func tlsConfigs(t *testing.T, version uint16, caches sessionCaches, listens ...conf.Listen) (servers []*tls.Config,
	client *tls.Config) {
	t.Helper()
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"a.test"}})
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
	store := &certStore{sessions: caches}
	for i := range listens {
		c := tlsConfig(&conf.Config{}, &conf.Host{}, &listens[i], store)
		c.GetCertificate, c.Certificates = nil, []tls.Certificate{pair}
		servers = append(servers, c)
	}
	return servers, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", MinVersion: version,
		MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
}

// without returns a Listen without tickets, with a cache.
func without(cache string, size int64, timeout time.Duration) conf.Listen {
	return conf.Listen{TLSConfig: &tls.Config{SessionTicketsDisabled: true}, SessionCache: cache,
		SessionCacheBytes: size, SessionTimeout: timeout}
}

// Sessions of a cache are resumed until they expire, also at another host with that cache, and not
// at a host with another or none.
func TestSessionsOfACache(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		caches := make(sessionCaches)
		hosts, client := tlsConfigs(t, version, caches, without("shared:a", 1<<20, time.Hour),
			without("shared:a", 1<<20, time.Hour), without("shared:b", 1<<20, 0), without("", 0, 0))
		cache := caches["shared:a"]
		for i, step := range []struct {
			host            int
			expire, resumes bool
		}{{0, false, false}, {0, false, true}, {1, false, true}, {1, true, false}, {1, false, true}, {2, false, false},
			{2, false, true}, {0, false, false}, {3, false, false}, {3, false, false}} {
			if step.expire {
				cache.expireAll()
			}
			testkit.Equal(t, resumes(t, hosts[step.host], client), step.resumes, tls.VersionName(version), "step", i)
		}
		testkit.Equal(t, cache.byID.Len() > 0, true, "a session is stored")
	}
}

// expireAll makes all sessions expire.
func (c *sessionCache) expireAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.byID.Values() {
		s.expires = time.Time{}
	}
}

// A cache keeps within its size, also a smaller one of a reload, and drops what no host names.
func TestSessionCacheIsBounded(t *testing.T) {
	caches := make(sessionCaches)
	hosts, client := tlsConfigs(t, tls.VersionTLS13, caches, without("shared:a", 4<<10, time.Hour))
	cache := caches["shared:a"]
	for range 100 {
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		resumes(t, hosts[0], client)
	}
	testkit.Between(t, cache.bytes, 0, 4<<10, "bytes of sessions")
	testkit.Between(t, cache.byID.Len(), 1, 20, "sessions")
	testkit.Equal(t, resumes(t, hosts[0], client), true, "the newest session is resumed")
	_, _ = tlsConfigs(t, tls.VersionTLS13, caches, without("shared:a", 1, time.Hour))
	testkit.Equal(t, cache.byID.Len(), 0, "sessions after a reload with no room")
	testkit.Equal(t, cache.bytes, 0, "their bytes")
	caches.retain(&conf.Config{})
	testkit.Equal(t, len(caches), 0, "caches that no host names")
}

// Tickets with keys of files are valid for another process with one of them.
func TestTicketKeysAreShared(t *testing.T) {
	keys := func(names ...byte) conf.Listen {
		var l conf.Listen
		for _, name := range names {
			l.TicketKeys = append(l.TicketKeys, [32]byte{name})
		}
		return l
	}
	hosts, client := tlsConfigs(t, tls.VersionTLS13, make(sessionCaches), keys(1), keys(1), keys(2, 1), keys(2),
		keys(1))
	for i, want := range []bool{false, true, true, true, false} { // the third renews the ticket by key 2
		testkit.Equal(t, resumes(t, hosts[i], client), want, "resumed by host", i)
	}
}

// A host that rejects handshakes resumes no session of another host with the same keys or cache.
func TestRejectedHandshakesAreNotResumed(t *testing.T) {
	keys := conf.Listen{TicketKeys: [][32]byte{{1}}}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for i, l := range []conf.Listen{keys, without("shared:a", 1<<20, time.Hour)} {
			caches := make(sessionCaches)
			hosts, client := tlsConfigs(t, version, caches, l)
			if resumes(t, hosts[0], client) || !resumes(t, hosts[0], client) {
				t.Fatal("sessions are not resumed at all")
			}
			rejects := tlsConfig(&conf.Config{}, &conf.Host{RejectHandshake: true}, &l, &certStore{sessions: caches})
			ours, theirs := net.Pipe()
			go func() {
				_ = tls.Server(theirs, rejects).Handshake() // the client has the error, too
				theirs.Close()
			}()
			testkit.Error(t, tls.Client(ours, client).Handshake(), "", tls.VersionName(version), i)
			ours.Close()
		}
	}
}

// A handshake during a reload finds its host, also if the host is newer than the table that was
// loaded before.
func TestHandshakesDuringReloadsFindTheirHost(t *testing.T) {
	old, current, choice := new(conf.Host), new(conf.Host), new(hostTLS)
	var tables atomic.Pointer[tlsTable]
	tables.Store(&tlsTable{old: new(hostTLS)})
	host, got := findTLS(&tables, func() (host, defaultHost *conf.Host) {
		if _, isReplaced := (*tables.Load())[current]; !isReplaced {
			tables.Store(&tlsTable{current: choice})
		}
		return current, current
	})
	if host != current || got != choice {
		t.Errorf("host %p with %p, want %p with %p", host, got, current, choice)
	}
	unknown := func() (host, defaultHost *conf.Host) { return old, nil }
	_, got = findTLS(&tables, unknown)
	testkit.Equal(t, got, nil, "of a host without TLS")
}

// A process that cannot start, because the disk is full, leaves no empty PID file.
func TestFullDiskLeavesNoPIDFile(t *testing.T) {
	path := filepath.Join(testkit.SmallDisk(t, "4k"), "pid")
	testkit.WriteFile(t, path+".other", strings.Repeat("x", 4096))
	s := New(nil, Options{Stderr: io.Discard})
	defer s.open()()
	testkit.Error(t, s.writePID(path), "no space left")
	testkit.Fails(os.Stat(path))(t, "no such file")
}

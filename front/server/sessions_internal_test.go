package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

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
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, <-done)
	return conn.ConnectionState().DidResume
}

// tlsConfigs returns the configurations of hosts with Listens, and a client's with a cache.
func tlsConfigs(t *testing.T, version uint16, caches sessionCaches, listens ...conf.Listen) (servers []*tls.Config,
	client *tls.Config) {
	t.Helper()
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"a.test"}})
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
			if got := resumes(t, hosts[step.host], client); got != step.resumes {
				t.Errorf("%s, step %d: resumed %v", tls.VersionName(version), i, got)
			}
		}
		if cache.byID.Len() == 0 {
			t.Error("no session is stored")
		}
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
	if cache.bytes > 4<<10 || cache.byID.Len() == 0 || cache.byID.Len() > 20 {
		t.Errorf("%d sessions of %d bytes", cache.byID.Len(), cache.bytes)
	}
	if !resumes(t, hosts[0], client) {
		t.Error("the newest session was not resumed")
	}
	_, _ = tlsConfigs(t, tls.VersionTLS13, caches, without("shared:a", 1, time.Hour))
	if cache.byID.Len() != 0 || cache.bytes != 0 {
		t.Errorf("%d sessions after a reload with no room", cache.byID.Len())
	}
	if caches.retain(&conf.Config{}); len(caches) != 0 {
		t.Errorf("%d caches that no host names", len(caches))
	}
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
	if _, got := findTLS(&tables, unknown); got != nil {
		t.Errorf("a host without TLS has %p", got)
	}
}

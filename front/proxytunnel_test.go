package front_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// upgrading are directives that forward Upgrade.
const upgrading = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; "

// wsEcho is a websocket that sends back what it receives.
func wsEcho(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	for {
		kind, b, err := ws.Read(r.Context())
		if err != nil || ws.Write(r.Context(), kind, b) != nil {
			return
		}
	}
}

// Websockets work if the Config forwards Upgrade, with servers and bound handlers.
func TestWebsocketsAreForwarded(t *testing.T) {
	noLeaks(t)
	a := serveBound(t, "proxy_cache_path DIR/cache keys_zone=one:1m;", strings.ReplaceAll(upgrading+`
		location /not { proxy_set_header Host $host; proxy_pass http://SERVER; }
		location /not/bound { proxy_set_header Host $host; proxy_pass http://app; }
		location /server { proxy_pass http://SERVER; } location /bound { proxy_pass http://app; }
		location /server/cached { proxy_cache one; proxy_cache_lock on; proxy_pass http://SERVER; }
		location /bound/cached { proxy_cache one; proxy_cache_lock on; proxy_pass http://app; }`, "SERVER", serve(t, wsEcho)),
		handlers{"app": wsEcho})
	for _, path := range []string{"/server", "/bound", "/server/cached", "/bound/cached", "/not", "/not/bound"} {
		t.Run(path, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			defer cancel()
			ws, resp, err := websocket.Dial(ctx, "ws://front.test"+path, &websocket.DialOptions{HTTPClient: a.client})
			if strings.HasPrefix(path, "/not") {
				if err == nil || resp.StatusCode == 101 {
					t.Error("it was switched")
				}
				return
			}
			testkit.Must(t, err)
			defer ws.CloseNow()
			ws.SetReadLimit(1 << 20)
			for _, n := range []int{0, 1, 1000, 200_000} {
				testkit.Must(t, ws.Write(ctx, websocket.MessageBinary, []byte(pattern(n))))
				if _, b, err := ws.Read(ctx); err != nil || string(b) != pattern(n) {
					t.Fatalf("%d: %d bytes, %v", n, len(b), err)
				}
			}
			testkit.Check(t, ws.Close(websocket.StatusNormalClosure, ""))
		})
	}
}

// Websockets of a Config that a reload has replaced end after its ShutdownTimeout. A request that
// waits for a response ends, too, without another attempt.
func TestReplacedConfigEndsAfterItsShutdownTimeout(t *testing.T) {
	noLeaks(t)
	var requests atomic.Int64
	upstream := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			wsEcho(w, r)
			return
		}
		requests.Add(1)
		<-r.Context().Done()
	}
	outer := "upstream up { server " + serve(t, upstream) + "; server " + serve(t, upstream) + "; }"
	for _, name := range []string{"up", "app"} {
		c := parseConf(t, outer, upgrading+passTo(name), "app")
		c.ShutdownTimeout = 50 * time.Millisecond
		h := newFront(t, c, front.Bind("app", http.HandlerFunc(wsEcho)))
		a := serveByTare(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), maxWait)
		defer cancel()
		ws, _, err := websocket.Dial(ctx, "ws://front.test/", &websocket.DialOptions{HTTPClient: a.client})
		testkit.Must(t, err)
		defer ws.CloseNow()
		waiting := make(chan error, 1)
		go func() {
			_, err := a.attempt("GET", "/", nil)
			waiting <- err
		}()
		testkit.WaitFor(t, "the request", func() bool { return name != "up" || requests.Load() > 0 })
		testkit.Must(t, h.Reload(c))
		if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: the websocket goes on: %v", name, err)
		}
		if err := <-waiting; name == "up" && err == nil {
			t.Error("a request that waits has a response")
		}
	}
	testkit.Equal(t, requests.Load(), 1, "attempts")
}

// Rejected upgrades: to HTTP/2, without the upstream's consent. A silent tunnel ends.
func TestUnwantedUpgradesAreRejected(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	seen := make(chan http.Header, 4)
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(nc))
		if err != nil {
			return
		}
		seen <- r.Header
		switch r.URL.Path {
		case "/200":
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		case "/101":
			io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\nX-A: b\r\n\r\nfirst")
			<-closedByPeer(nc)
		}
	})
	a := serveConf(t, "", "proxy_read_timeout 1s; "+upgrading+passTo(to))
	line := func(path, upgrade string) (*http.Response, *bufio.Reader) {
		br := bufio.NewReader(dial(t, "unix", a.socket, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nConnection: upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nUpgrade: %s\r\n\r\n", path, upgrade)))
		return testkit.Value(http.ReadResponse(br, nil))(t), br
	}
	line("/200", "h2c")
	testkit.Fields(t, <-seen, "h2c", "Upgrade", "", "Http2-Settings", "", "Connection", "close")
	line("/200", "websocket, h2c")
	testkit.Equal(t, (<-seen)["Upgrade"], nil, "HTTP/2 is requested")
	resp, _ := line("/200", "x")
	testkit.Equal(t, resp.StatusCode, 200)
	testkit.Reads(t, resp.Body, "hi")
	testkit.Fields(t, resp.Header, "200", "Upgrade", "")
	resp, br := line("/101", "x")
	testkit.Equal(t, resp.StatusCode, 101)
	testkit.Fields(t, resp.Header, "101", "Upgrade", "x", "X-A", "b")
	testkit.Reads(t, br, "first")
}

// HTTPS upstreams: verification, SNI and client certificates.
func TestHTTPSUpstreamsAreVerified(t *testing.T) {
	names := make(chan string, 20)
	s := serveTLS(t, &tls.Config{ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			names <- h.ServerName
			return nil, nil
		}}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hi ", len(r.TLS.PeerCertificates)) })
	to := conf.Text(s.Listener.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, test := range []struct {
		tls    conf.ProxyTLS
		status int
		name   string
	}{
		{conf.ProxyTLS{}, 200, ""},
		{conf.ProxyTLS{SNI: true, Name: "any.example"}, 200, "any.example"},
		{conf.ProxyTLS{Config: &tls.Config{RootCAs: roots}, Name: "example.com"}, 200, ""},
		{conf.ProxyTLS{Config: &tls.Config{RootCAs: roots}, Name: "$arg_n", SNI: true}, 200, "example.com"},
		{conf.ProxyTLS{Config: &tls.Config{RootCAs: roots}, Name: "evil.test", SNI: true}, 502, "evil.test"},
		{conf.ProxyTLS{Config: &tls.Config{RootCAs: x509.NewCertPool()}, Name: "example.com"}, 502, ""},
		{conf.ProxyTLS{Config: &tls.Config{InsecureSkipVerify: true, Certificates: s.TLS.Certificates}}, 200, ""},
	} {
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{Protocol: "https", To: to, TLS: test.tls})))
		got := a.get("/?n=example.com")
		testkit.Equal(t, got.status, test.status, test.tls)
		testkit.Equal(t, <-names, test.name, "the server's name, with", test.tls)
		if test.tls.Config != nil && test.tls.Config.Certificates != nil && got.body != "hi 1" {
			t.Errorf("no certificate was shown: %q", got.body)
		}
	}
	plain := serve(t, echo) // plain bytes instead of TLS
	serveConf(t, "", "location / { proxy_pass https://"+plain+"; }").get("/").is(t, 502)
}

// Unix sockets work with any path. Package corpus shows usual ones, by HTTP and by FastCGI.
func TestUnixUpstreamsAreReached(t *testing.T) {
	for _, name := range []string{"s", "a b:80", "\u00e4%20", "[x]", "a+b:9"} {
		path := filepath.Join(testkit.ShortDir(t), name)
		testkit.ServeUnix(t, path, func(nc net.Conn) {
			b := make([]byte, 4<<10)
			n, _ := nc.Read(b)
			testkit.Contains(t, string(b[:n]), "\r\nHost: localhost\r\n", name)
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		})
		c := proxyTo(conf.Proxy{To: conf.Text("unix:" + path)})
		c.Hosts[0].Locations[0].Settings = variables("$upstream_addr")
		got := serveHandler(t, newFront(t, c)).get("/")
		got.is(t, 200, "hi")
		testkit.Fields(t, got.header, name, "X-Vars", "unix:"+path)
	}
}

// countedServer starts an upstream, whose new connections a channel counts.
func countedServer(t *testing.T) (s *httptest.Server, addr string, conns chan bool) {
	conns = make(chan bool, 100)
	s = serveTest(t, http.HandlerFunc(echo), func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns <- true
			}
		}
	})
	return s, s.Listener.Addr().String(), conns
}

// keeping are directives with which connections to an upstream are kept.
const keeping = `proxy_http_version 1.1; proxy_set_header Connection ""; `

// Connections are kept as the group configures: how many, and for how many requests.
func TestConnectionsAreKeptAsConfigured(t *testing.T) {
	for _, test := range []struct {
		group, directives string
		want              int
	}{
		{"", keeping, 6}, {"keepalive 2;", keeping, 1}, {"keepalive 2; keepalive_requests 3;", keeping, 2},
		{"keepalive 2;", "", 6}, {"keepalive 2;", "proxy_http_version 1.1; ", 6},
		{"keepalive 2;", "proxy_http_version 1.1; proxy_set_header Connection close; ", 6},
	} {
		_, addr, conns := countedServer(t)
		a := serveConf(t, "upstream up { server "+addr+"; "+test.group+" }", test.directives+"location / { proxy_pass http://up; }")
		for range 6 {
			a.get("/")
		}
		testkit.Equal(t, len(conns), test.want, test)
	}
}

// A reload keeps connections and the health of servers. After Close nothing is left.
func TestReloadKeepsConnections(t *testing.T) {
	before := runtime.NumGoroutine()
	s, addr, conns := countedServer(t)
	c := func(weight int) conf.Config {
		return parseConf(t, fmt.Sprintf("upstream up { server %s weight=%d; keepalive 2; }", addr, weight),
			keeping+"location / { proxy_pass http://up; }")
	}
	h := newFront(t, c(1))
	for i := range 5 {
		get(t, h, "/").is(t, 200)
		testkit.Must(t, h.Reload(c(i+2)))
	}
	testkit.Equal(t, len(conns), 1, "connections for one server")
	testkit.Check(t, h.Close())
	s.Close()
	testkit.WaitFor(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

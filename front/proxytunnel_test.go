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
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// upgrading returns a Proxy that forwards Upgrade.
func upgrading(to string) conf.Proxy {
	return conf.Proxy{To: conf.Text(to), Version: "1.1",
		Header: []conf.Field{{Name: "Upgrade", Value: "$http_upgrade"}, {Name: "Connection", Value: "upgrade"}}}
}

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
	to := serve(t, wsEcho)
	withCache := func(to string) conf.Config {
		c := cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}}, conf.Cache{Name: "one"})
		p := c.Hosts[0].Locations[0].Proxy
		p.Version, p.Header = "1.1", upgrading(to).Header
		return c
	}
	for name, c := range map[string]struct {
		config conf.Config
		ok     bool
	}{
		"server": {proxyTo(upgrading(to)), true}, "bound": {proxyTo(upgrading("app")), true},
		"server, cached": {withCache(to), true}, "bound, cached": {withCache("app"), true},
		"not requested":        {proxyTo(conf.Proxy{To: conf.Text(to)}), false},
		"bound, not requested": {proxyTo(conf.Proxy{To: "app"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := serveHandler(t, newFront(t, c.config, front.Bind("app", http.HandlerFunc(wsEcho))))
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			defer cancel()
			ws, resp, err := websocket.Dial(ctx, "ws://front.test/", &websocket.DialOptions{HTTPClient: a.client})
			if !c.ok {
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
	servers := []conf.Server{{Addr: serve(t, upstream)}, {Addr: serve(t, upstream)}}
	for _, name := range []string{"up", "app"} {
		c := proxyTo(upgrading(name))
		c.ShutdownTimeout = 50 * time.Millisecond
		c.Upstreams = []conf.Upstream{{Name: "up", Servers: servers}}
		h := newFront(t, c, front.Bind("app", http.HandlerFunc(wsEcho)))
		a := serveByTare(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), maxWait)
		defer cancel()
		ws, _, err := websocket.Dial(ctx, "ws://front.test/", &websocket.DialOptions{HTTPClient: a.client})
		testkit.Must(t, err)
		defer ws.CloseNow()
		waiting := make(chan error, 1)
		go func() {
			resp, err := a.client.Get("http://front.test/")
			if err == nil {
				resp.Body.Close()
			}
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
	short := upgrading(to)
	short.ReadTimeout = time.Second
	long, impatient := serveHandler(t, newFront(t, proxyTo(upgrading(to)))),
		serveHandler(t, newFront(t, proxyTo(short)))
	line := func(a *testClient, path, upgrade string) (*http.Response, *bufio.Reader) {
		nc := dial(t, "unix", a.socket,
			fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nConnection: upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nUpgrade: %s\r\n\r\n", path, upgrade))
		br := bufio.NewReader(nc)
		resp := testkit.Value(http.ReadResponse(br, nil))(t)
		return resp, br
	}
	line(long, "/200", "h2c")
	testkit.Fields(t, <-seen, "h2c", "Upgrade", "", "Http2-Settings", "", "Connection", "close")
	line(long, "/200", "websocket, h2c")
	testkit.Equal(t, (<-seen)["Upgrade"], nil, "HTTP/2 is requested")
	resp, _ := line(long, "/200", "x")
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "hi" || resp.Header["Upgrade"] != nil {
		t.Errorf("%v %q", resp, b)
	}
	resp, br := line(impatient, "/101", "x")
	testkit.Equal(t, resp.StatusCode, 101)
	testkit.Fields(t, resp.Header, "101", "Upgrade", "x", "X-A", "b")
	testkit.Equal(t, string(testkit.Value(io.ReadAll(br))(t)), "first")
}

// HTTPS upstreams: verification, SNI and client certificates.
func TestHTTPSUpstreamsAreVerified(t *testing.T) {
	names := make(chan string, 20)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hi ", len(r.TLS.PeerCertificates))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			names <- h.ServerName
			return nil, nil
		}}
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	s.Config.ErrorLog = nil
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
		c := proxyTo(conf.Proxy{Protocol: "https", To: to, TLS: test.tls})
		a := serveHandler(t, newFront(t, c))
		got := a.get("/?n=example.com")
		name := <-names
		testkit.Equal(t, got.status, test.status, test.tls)
		testkit.Equal(t, name, test.name, "the server's name, with", test.tls)
		if test.tls.Config != nil && test.tls.Config.Certificates != nil && got.body != "hi 1" {
			t.Errorf("no certificate was shown: %q", got.body)
		}
	}
	plain := serve(t, echo)
	a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{Protocol: "https", To: conf.Text(plain)})))
	a.get("/").is(t, 502) // plain bytes instead of TLS
}

// Unix sockets work with any path, by HTTP and by FastCGI.
func TestUnixUpstreamsAreReached(t *testing.T) {
	for i, name := range []string{"s", "a b:80", "\u00e4%20", "[x]", "a+b:9"} {
		path := filepath.Join(testkit.ShortDir(t), name)
		p := conf.Proxy{To: conf.Text("unix:" + path)}
		response := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
		if i%2 == 1 {
			p.Protocol = "fastcgi"
			b := wire.AppendStreamEnd(wire.AppendStream(nil, wire.Stdout, 1, []byte("X: y\n\nhi")), wire.Stdout, 1)
			response = string(wire.AppendEnd(b, 1, wire.End{}))
		}
		testkit.ServeUnix(t, path, func(nc net.Conn) {
			b := make([]byte, 4<<10)
			n, _ := nc.Read(b)
			if p.Protocol == "" && !strings.Contains(string(b[:n]), "\r\nHost: localhost\r\n") {
				t.Errorf("%q: received %q", name, b[:n])
			}
			_, _ = io.WriteString(nc, response)
		})
		c := proxyTo(p)
		c.Hosts[0].Locations[0].Settings = variables("$upstream_addr")
		got := serveHandler(t, newFront(t, c)).get("/")
		if got.status != 200 || got.body != "hi" || got.header.Get("X-Vars") != "unix:"+path && i == 0 {
			t.Errorf("%q: %d %q %v", name, got.status, got.body, got.header)
		}
	}
}

// countedServer starts an upstream at an address, whose new connections a channel counts.
func countedServer(t *testing.T) (s *httptest.Server, addr string, conns chan bool) {
	conns = make(chan bool, 100)
	s = httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns <- true
		}
	}
	s.Start()
	t.Cleanup(s.Close)
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
	h := testkit.Value(front.New(c(1), quiet()))(t)
	for i := range 5 {
		get(t, h, "/").is(t, 200)
		testkit.Must(t, h.Reload(c(i+2)))
	}
	testkit.Equal(t, len(conns), 1, "connections for one server")
	testkit.Check(t, h.Close())
	s.Close()
	testkit.WaitFor(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

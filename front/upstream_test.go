package front_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// checkedServer is a server whose response to checks changes.
type checkedServer struct {
	addr   string
	health atomic.Pointer[http.HandlerFunc]
	last   atomic.Pointer[http.Request] // the last check
	checks atomic.Int64
	open   atomic.Int64 // accepted connections
}

func startChecked(t *testing.T, health http.HandlerFunc) *checkedServer {
	s := new(checkedServer)
	s.health.Store(&health)
	server := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			fmt.Fprint(w, "ok")
			return
		}
		s.last.Store(r)
		s.checks.Add(1)
		(*s.health.Load())(w, r)
	}), func(server *httptest.Server) {
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			s.open.Add(map[http.ConnState]int64{http.StateNew: 1, http.StateClosed: -1}[state])
		}
	})
	s.addr = server.Listener.Addr().String()
	return s
}

// awaitClosed waits until the server has served all connections that clients opened before. The
// clients must not keep them.
func (s *checkedServer) awaitClosed(t *testing.T) {
	t.Helper()
	// connections are accepted in order: this one after the others
	testkit.Value(io.ReadAll(dial(t, "tcp", s.addr, "GET / HTTP/1.0\r\n\r\n")))(t)
	testkit.WaitFor(t, "the end of connections", func() bool { return s.open.Load() == 0 })
}

// awaitStatus repeats a request until it has a status.
func (a *testClient) awaitStatus(path string, want int) {
	a.t.Helper()
	testkit.WaitFor(a.t, fmt.Sprint(path, " to be ", want), func() bool { return a.get(path).status == want })
}

func TestHealthCheckDecidesAboutRequests(t *testing.T) {
	responding := func(status int, body string, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	good := responding(200, "I am well", "X-State", "up and running")
	for name, bad := range map[string]http.HandlerFunc{
		"status":  responding(500, "I am well", "X-State", "up and running"),
		"field":   responding(200, "I am well"),
		"value":   responding(200, "I am well", "X-State", "down"),
		"another": responding(200, "I am well", "X-State", "up and running", "X-Bad", ""),
		"body":    responding(200, "I am ill", "X-State", "up"),
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startChecked(t, good)
			a := serveConf(t, fmt.Sprintf(`match m { status 200-299 304; header X-State ~ ^up; header ! X-Bad;
				body ~ "(?<group>well)"; }
				upstream app { zone app 64k; server %s; }`, s.addr), `location / { proxy_pass http://app;
				proxy_set_header Host health.example; proxy_set_header X-A a; proxy_set_header X-B $uri;
				health_check interval=1ms uri=/health mandatory match=m; }
				location /metrics { stub_status prometheus; }`)
			a.awaitStatus("/", 200)
			testkit.Equal(t, s.last.Load().Host, "health.example", "the check")
			testkit.Fields(t, s.last.Load().Header, "the check", "X-A", "a", "X-B", "")
			s.health.Store(&bad)
			a.awaitStatus("/", 502)
			page := a.get("/metrics").body
			for _, want := range []string{`tare_upstream_server_up{upstream="app",server="` + s.addr + `"} 0`,
				"tare_upstream_server_checks_total{", "tare_upstream_server_failed_checks_total{"} {
				testkit.Contains(t, page, want)
			}
			s.health.Store(&good)
			a.awaitStatus("/", 200)
		})
	}
}

// Checks end with their configuration, also while a request of that is in progress.
func TestHealthCheckEndsWithItsConfiguration(t *testing.T) {
	s := startChecked(t, func(http.ResponseWriter, *http.Request) {})
	text := fmt.Sprintf("location / { proxy_pass http://%s; ", s.addr)
	h := confFront(t, "", text+"health_check interval=1ms uri=/health; }", nil)
	testkit.WaitFor(t, "checks", func() bool { return s.checks.Load() >= 3 })
	testkit.Must(t, h.Reload(parseConf(t, "", text+"}")))
	s.awaitClosed(t) // the server may receive a check that was sent before
	before := s.checks.Load()
	time.Sleep(20 * time.Millisecond)
	testkit.Equal(t, s.checks.Load(), before, "checks after the reload")
}

// Checks have the version of HTTP of the location's requests: a server may support no other.
func TestHealthCheckUsesHTTP2(t *testing.T) {
	for scheme, addr := range map[string]string{"http": startHTTP2(t, false), "https": startHTTP2(t, true)} {
		a := serveConf(t, fmt.Sprintf(`match m { status 200; body ~ "^HTTP/2.0 GET /health app.example"; }
			upstream app { zone app 64k; server %s; }`, addr), fmt.Sprintf(`location / { proxy_pass %s://app;
			proxy_http_version 2; proxy_set_header Host app.example;
			health_check interval=1ms uri=/health mandatory match=m; }`, scheme))
		a.awaitStatus("/", 200)
	}
}

// A check of a server with TLS sends the name that the location's requests send, or none.
func TestHealthCheckSendsTheLocationsServerName(t *testing.T) {
	for directives, want := range map[string]string{"": "", "proxy_ssl_server_name on;": "app.example",
		"proxy_ssl_server_name on; proxy_ssl_name other.example;": "other.example"} {
		names := make(chan string, 1)
		s := serveTLS(t, new(tls.Config), func(w http.ResponseWriter, r *http.Request) {
			select {
			case names <- r.TLS.ServerName:
			default:
			}
		})
		serveConf(t, fmt.Sprintf("upstream app { zone app 64k; server %s; }", s.Listener.Addr()), `location / {
			proxy_pass https://app; proxy_set_header Host app.example; `+directives+` health_check interval=1ms uri=/health; }`)
		testkit.Equal(t, testkit.Receive(t, names), want, "server name with", directives)
	}
}

// Checks that only differ in their fields are different.
func TestHealthChecksWithOtherFieldsAreOthers(t *testing.T) {
	hosts := make(chan string, 100)
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case hosts <- r.Host:
		default:
		}
	})
	serveConf(t, fmt.Sprintf("upstream app { zone app 64k; server %s; }", addr), `
		location /a { proxy_pass http://app; proxy_set_header Host a.example; health_check interval=1ms; }
		location /b { proxy_pass http://app; proxy_set_header Host b.example; health_check interval=1ms; }`)
	seen := make(map[string]bool)
	testkit.WaitFor(t, "checks for both", func() bool {
		seen[testkit.Receive(t, hosts, "a check")] = true
		return len(seen) == 2
	})
}

// stickyServers are two servers, and an upstream of them with more directives. The response of a
// server is its name.
func stickyServers(t *testing.T, directives string) string {
	t.Helper()
	text := "upstream app { " + directives
	for _, name := range []string{"a", "b"} {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
		text += fmt.Sprintf(" server %s route=%s;", addr, name)
	}
	return text + " }"
}

func TestStickyCookieBindsClient(t *testing.T) {
	location := passTo("app")
	a := serveConf(t, stickyServers(t, "sticky cookie srv domain=.example.com path=/x httponly secure samesite=strict;"),
		location)
	for range 4 {
		first := a.get("/")
		testkit.Fields(t, first.header, "the first response", "Set-Cookie",
			"srv="+first.body+"; Domain=.example.com; Path=/x; HttpOnly; Secure; SameSite=Strict")
		for range 3 {
			again := a.get("/", "Cookie", "x=y; srv="+first.body)
			testkit.Equal(t, again.body, first.body)
			testkit.Fields(t, again.header, first.body, "Set-Cookie", "")
		}
	}
	got := a.get("/", "Cookie", "srv=evil")
	testkit.Matches(t, got.header.Get("Set-Cookie"), "^srv="+got.body, "after an unknown route")
	expiring := serveConf(t, stickyServers(t, "sticky cookie srv expires=1h;"), location).get("/", "Cookie", "srv=a")
	if cookie, err := http.ParseSetCookie(expiring.header.Get("Set-Cookie")); err != nil || cookie.MaxAge != 3600 ||
		cookie.Value != "a" || cookie.Expires.IsZero() {
		t.Errorf("%q %v", expiring.header, err)
	}
}

func TestStickyRouteIsFromVariables(t *testing.T) {
	a := serveConf(t, stickyServers(t, "sticky route $cookie_route $arg_route;"), passTo("app"))
	for range 3 {
		for want, request := range map[string][]string{"a": {"/?route=b", "Cookie", "route=a"}, "b": {"/?route=b"}} {
			a.get(request[0], request[1:]...).is(t, 200, want)
		}
	}
}

// With a cache, a client is bound by responses of its own only, which are not stored.
func TestCachedResponseBindsNoClient(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", r.URL.Query().Get("control"))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
	})
	a := serveConf(t, fmt.Sprintf(`proxy_cache_path %s keys_zone=c:1m; upstream app { sticky cookie srv;
		server %s route=one; server 127.0.0.1:1 route=two backup; }`, t.TempDir(), addr),
		`location / { proxy_cache c; proxy_ignore_headers Set-Cookie; proxy_cache_key $args;
		proxy_pass http://app; }`)
	for range 2 {
		cookies := func(control string) string {
			return strings.Join(a.get("/?control=" + control).header["Set-Cookie"], " ")
		}
		testkit.Equal(t, cookies("no-store"), "srv=one session=s", "not stored")
		testkit.Equal(t, cookies("max-age=60"), "session=s", "stored")
	}
}

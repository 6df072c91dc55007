package front_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// Checks have the version of HTTP of the location's requests: a server may support no other.
func TestHealthCheckUsesHTTP2(t *testing.T) {
	for scheme, addr := range map[string]string{"http": startHTTP2(t, false), "https": startHTTP2(t, true)} {
		for _, keep := range []string{"", "keepalive_time=1m"} {
			a := serveConf(t, fmt.Sprintf(`match m { status 200; body ~ "^HTTP/2.0 GET /health app.example"; }
				upstream app { zone app 64k; server %s; }`, addr), fmt.Sprintf(`location / { proxy_pass %s://app;
				proxy_http_version 2; proxy_set_header Host app.example;
				health_check interval=1ms uri=/health mandatory match=m %s; }`, scheme, keep))
			a.awaitStatus("/", 200)
		}
	}
}

// A check of a server with TLS sends the name that the location's requests send, or none.
func TestHealthCheckSendsTheLocationsServerName(t *testing.T) {
	for name, test := range map[string]struct{ directives, want string }{
		"off":       {"", ""},
		"on":        {"proxy_ssl_server_name on;", "app.example"},
		"with name": {"proxy_ssl_server_name on; proxy_ssl_name other.example;", "other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			names := make(chan string, 1)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/health" {
					select {
					case names <- r.TLS.ServerName:
					default:
					}
				}
			}))
			socket := filepath.Join(shortDir(t), "s")
			var err error
			s.Listener.Close()
			s.Listener, err = net.Listen("unix", socket)
			must(t, err)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
			s.StartTLS()
			t.Cleanup(s.Close)
			serveConf(t, fmt.Sprintf("upstream app { zone app 64k; server unix:%s; }", socket), `location / {
				proxy_pass https://app; proxy_set_header Host app.example; `+test.directives+`
				health_check interval=1ms uri=/health; }`)
			if got := await(t, names); got != test.want {
				t.Errorf("server name %q, want %q", got, test.want)
			}
		})
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
	for end := time.After(maxWait); len(seen) < 2; {
		select {
		case host := <-hosts:
			seen[host] = true
		case <-end:
			t.Fatalf("only checks for %v", seen)
		}
	}
}

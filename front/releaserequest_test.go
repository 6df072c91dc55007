package front

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// releaseSink counts the requests that are released.
type releaseSink struct {
	rawSink
	released int
}

func (s *releaseSink) ReleaseRequest() { s.released++ }

// A proxied request is released if a server calls the Handler directly, and neither a handler, a
// cache, a copy nor a context's user has a part of it.
func TestProxiedRequestIsReleasedUnlessSomethingKeepsIt(t *testing.T) {
	to := conf.Upstream{Name: "http", Keepalive: 1, Servers: []conf.Server{
		{Addr: replies(t, []byte("HTTP/1.1 200 OK\r\n"+upstreamFields+"\r\nhi"))}}}
	proxied := func(s conf.Settings) conf.Location {
		return conf.Location{Path: "/", Settings: s, Proxy: &conf.Proxy{To: "http", Version: "1.1",
			Header: []conf.Field{{Name: "Connection"}}}}
	}
	bound := func(path string) conf.Location { return conf.Location{Path: path, Proxy: &conf.Proxy{To: "app"}} }
	byVariable := proxied(conf.Settings{})
	byVariable.Proxy.To = "$host"
	named := proxied(conf.Settings{})
	named.Path, named.Match = "@app", conf.Named
	for _, test := range []struct {
		name      string
		locations []conf.Location
		direct    bool // the server calls the Handler
		want      int
	}{
		{"alone", []conf.Location{proxied(conf.Settings{})}, true, 1},
		{"try_files", []conf.Location{{Path: "/", TryFiles: []conf.Text{"/none", "@app"}},
			named}, true, 1},
		{"middleware", []conf.Location{proxied(conf.Settings{})}, false, 0},
		{"mirror", []conf.Location{proxied(conf.Settings{Mirror: &conf.Mirror{URIs: []string{"/copy"}}}),
			bound("/copy")}, true, 0},
		{"subrequest", []conf.Location{proxied(conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/auth"}}),
			bound("/auth")}, true, 0},
		{"handler", []conf.Location{bound("/")}, true, 0},
		{"variable", []conf.Location{byVariable}, true, 1},
	} {
		h := newFront(t, conf.Config{Upstreams: []conf.Upstream{to}, Hosts: []conf.Host{{Locations: test.locations}}},
			Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		server := &http.Server{Handler: h}
		if !test.direct {
			server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
		}
		r := httptest.NewRequest("GET", "/x", nil)
		r.Host, r.Body, r.RemoteAddr = "http", http.NoBody, "127.0.0.1:1234"
		r = r.WithContext(context.WithValue(context.Background(), http.ServerContextKey, server))
		w := new(releaseSink)
		for range 2 { // the first one opens the connection, and a dialer has its context
			*w = releaseSink{rawSink: rawSink{sink: sink{make(http.Header)}}}
			server.Handler.ServeHTTP(w, r)
		}
		if w.released != test.want {
			t.Errorf("%s: released %d times, want %d", test.name, w.released, test.want)
		}
	}
}

package front_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// Explain runs no handler and connects to no upstream, also for the subrequest of auth_request, and
// its findings follow internal redirects.
func TestExplainRunsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			t.Error("it connects to the upstream")
		}
	}()
	bound := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it calls the handler") })
	c := conf.Config{
		Upstreams: []conf.Upstream{{Name: "users", Servers: []conf.Server{{Addr: l.Addr().String()}}}},
		Hosts: []conf.Host{{Pos: "x:1", Names: []string{"a"}, Locations: []conf.Location{
			{Path: "/", Pos: "x:2", Proxy: &conf.Proxy{To: "app"},
				Settings: &conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/auth"}}},
			{Path: "/auth", Match: "=", Pos: "x:3", Proxy: &conf.Proxy{To: "users"}},
			{Path: "/gone", Pos: "x:4", Steps: []conf.Step{conf.Return{Status: 410}},
				Settings: &conf.Settings{
					ErrorPages: []conf.ErrorPage{{Statuses: []int{410}, Target: "/page", Status: 200}},
				}},
		}}},
	}
	explain := func(path string) []front.Finding {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, l.Addr()))
		found, err := front.Explain(c, r, front.Bind("app", bound))
		must(t, err)
		return found
	}
	want := []front.Finding{
		{"server", "x:1", "server_name a (default server of the address)"},
		{"location", "x:2", "location /"},
		{"subrequest: location", "x:3", "location = /auth"},
		{"subrequest: content", "x:3", "proxy_pass http://users: GET /auth"},
		{"subrequest: upstream", "", "users: " + l.Addr().String()},
		{"access", "x:2", "is granted"},
		{"content", "x:2", "proxy_pass http://app: GET /x?y"},
		{"upstream", "", "app: a handler of the program"},
	}
	if got := explain("/x?y"); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	want = []front.Finding{
		{"server", "x:1", "server_name a (default server of the address)"},
		{"location", "x:4", "location /gone"},
		{"rewrite", "", "return 410"},
		{"location", "x:2", "location /"},
		{"subrequest: location", "x:3", "location = /auth"},
		{"subrequest: content", "x:3", "proxy_pass http://users: GET /auth"},
		{"subrequest: upstream", "", "users: " + l.Addr().String()},
		{"access", "x:2", "is granted"},
		{"content", "x:2", "proxy_pass http://app: GET /page"},
		{"upstream", "", "app: a handler of the program"},
	}
	if got := explain("/gone"); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if _, err := front.Explain(conf.Config{}, httptest.NewRequest(http.MethodGet, "/", nil)); err == nil {
		t.Error("a Config without hosts has no error")
	}
}

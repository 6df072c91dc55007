package front_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// echoed is what an upstream has received.
type echoed struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

// echo responds with what it received.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	// fields of the connection, which differ from nginx's
	for _, name := range []string{"Connection", "Content-Length"} {
		r.Header.Del(name)
	}
	_ = json.NewEncoder(w).Encode(echoed{r.Method, r.RequestURI, r.Host, string(body), r.Header})
}

// serve serves a handler, and returns its address.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// proxyTo returns a location / that proxies to an address.
func proxyTo(p conf.Proxy) conf.Config { return oneHost(conf.Location{Path: "/", Proxy: &p}) }

// A client's Connection removes neither fields that are set nor those about clients; other fields
// that it names are removed.
func TestConnectionRemovesOnlyNamedFields(t *testing.T) {
	a := serveHandler(t, newFront(t,
		proxyTo(conf.Proxy{To: conf.Text(serve(t, echo)), Header: []conf.Field{{Name: "X-User", Value: "me"}}})))
	var e echoed
	got := a.get("/", "Connection", "x-user, X-Forwarded-For , X-Named, keep-alive", "X-User", "evil", "X_User",
		"evil", "X-Named", "1", "X-Forwarded-For", "1.2.3.4", "X.User", "evil", "Proxy-Authorization", "secret")
	must(t, json.Unmarshal([]byte(got.body), &e))
	for _, name := range []string{"Accept-Encoding", "User-Agent"} {
		delete(e.Header, name)
	}
	if fmt.Sprint(e.Header) != "map[X-Forwarded-For:[1.2.3.4] X-User:[me]]" {
		t.Error(e.Header)
	}
}

// Named groups of Replaces are variables in all locations, whatever is compiled first.
func TestNamedGroupsOfReplacesAreVariables(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "http://shop.example/x") })
	replaces := func(group string) []conf.Replace {
		return []conf.Replace{{From: `~^http://(?P<` + group + `>\w+)\.example`,
			To: conf.Text("http://$" + group + ".test")}}
	}
	inner := conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to), Redirects: replaces("inner")}}
	a := serveHandler(t, newFront(t, oneHost(conf.Location{
		Path: "/", Proxy: &conf.Proxy{To: conf.Text(to), Redirects: replaces("outer")},
		Steps:    []conf.Step{conf.Set{Name: "early", Value: "$outer$inner"}, conf.If{Left: "$arg_x", Location: &inner}},
		Settings: &conf.Settings{Header: []conf.AddHeader{{Name: "X-Outer", Value: "$early$outer"}}},
	})))
	if r := a.get("/?x=1"); r.header.Get("Location") != "http://shop.test" {
		t.Errorf("in an if: %v", r.header)
	}
	if r := a.get("/"); r.header.Get("Location") != "http://shop.test" || r.header.Get("X-Outer") != "shop" {
		t.Errorf("%v", r.header)
	}
}

// A request that cannot be sent to any server is not a failure of the servers.
func TestUnsendableRequestIsNoServersFailure(t *testing.T) {
	uri := conf.Text("$uri")
	for name, p := range map[string]conf.Proxy{
		"target": {URI: &uri}, "host": {Header: []conf.Field{{Name: "Host", Value: "$arg_host"}}},
		"method": {Method: "$arg_method"},
	} {
		p.To = "up"
		c := proxyTo(p)
		c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: serve(t, echo)},
			{Addr: serve(t, echo)}}}}
		a := serveHandler(t, newFront(t, c))
		bad := map[string]string{"target": "/a%20b", "host": "/?host=a/b", "method": "/?method=a/b"}[name]
		if got := a.get(bad); got.status != 502 {
			t.Errorf("%s: %d", name, got.status)
		}
		if got := a.get("/ok"); got.status != 200 {
			t.Errorf("after an unsendable %s: %d", name, got.status)
		}
	}
}

// The timeout for reading the response does not depend on that for sending the request, which is
// longer here.
func TestReadTimeoutFollowsSendTimeout(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(nc))
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			<-closedByPeer(nc)
		}
	})
	for _, stream := range []bool{false, true} {
		a := serveHandler(t, newFront(t,
			proxyTo(conf.Proxy{To: conf.Text(to), ReadTimeout: 200 * time.Millisecond, SendTimeout: maxWait,
				StreamRequest: stream})))
		began := time.Now()
		got := a.do("POST", "/", strings.NewReader(pattern(100_000)))
		if got.status != 504 || time.Since(began) >= maxWait {
			t.Errorf("streamed %v: %d after %v", stream, got.status, time.Since(began))
		}
	}
}

package front_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func hostListening(name string, listen ...string) conf.Host {
	h := conf.Host{Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(name)}}, Names: []string{name}}
	for _, l := range listen {
		h.Listen = append(h.Listen, conf.Listen{Addr: l})
	}
	return h
}

// The host is one of the local address.
func TestHostIsOfLocalAddress(t *testing.T) {
	elsewhere := hostListening("elsewhere", "*:81")
	elsewhere.Listen[0].Default = true
	h := newFront(t, conf.Config{Hosts: []conf.Host{
		hostListening("all", "*:80"), hostListening("one", "10.0.0.1:80", "*:81"),
		hostListening("two", "10.0.0.1:80"), hostListening("six", "[::]:80", "[::1]:82"),
		hostListening("socket", "unix:/run/x"), elsewhere,
	}})
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, test := range []struct {
		local net.Addr
		host  string
		want  string
	}{
		{tcp("10.0.0.2", 80), "one", "all"}, {tcp("10.0.0.1", 80), "x", "one"}, {tcp("10.0.0.1", 80), "two", "two"},
		{tcp("10.0.0.1", 80), "all", "one"}, {tcp("10.0.0.1", 81), "x", "elsewhere"},
		{tcp("10.0.0.1", 81), "one", "one"},
		{tcp("::1", 80), "x", "six"}, {tcp("::1", 82), "x", "six"}, {tcp("::2", 82), "x", ""},
		{&net.UnixAddr{Name: "/run/x"}, "x", "socket"}, {&net.UnixAddr{Name: "/run/y"}, "x", ""},
		{tcp("10.0.0.1", 99), "all", ""}, {nil, "all", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = test.host
		if test.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local))
		}
		if got := responseTo(h, r); test.want == "" {
			testkit.Equal(t, got.status, http.StatusMisdirectedRequest, test.local, test.host)
		} else {
			testkit.Equal(t, got.body, test.want, test.local, test.host)
		}
	}
	withBody := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	testkit.Equal(t, responseTo(h, withBody).status, http.StatusMisdirectedRequest, "a request with a body")
}

// If all hosts listen on the same addresses the address does not matter.
func TestSameHostsEverywhereNeedNoAddress(t *testing.T) {
	first, second := hostListening("first", "127.0.0.1:80", "[::1]:80"),
		hostListening("second", "[::1]:80", "127.0.0.1:80")
	h := newFront(t, conf.Config{Hosts: []conf.Host{first, second}})
	get(t, h, "/", "Host", "second").is(t, 200, "second")
	get(t, h, "/", "Host", "x").is(t, 200, "first")
	get(t, h, "/", "Host", "a/b").is(t, 400)
	anywhere := newFront(t, conf.Config{Hosts: []conf.Host{hostListening("anywhere"), hostListening("first",
		"127.0.0.1:80")}})
	for host, want := range map[string]string{"x": "anywhere", "first": "anywhere"} {
		get(t, anywhere, "/", "Host", host).is(t, 200, want)
	}
}

// The corpus compares HTTP/1 requests with nginx; its client does not support HTTP/2.
func TestMalformedHTTP2RequestsGet400(t *testing.T) {
	h := confFront(t, "", "return 200 fine;", nil)
	for name, c := range map[string]struct {
		method, authority string
		header            http.Header
		want              int
	}{
		"as usual":              {"GET", "a.example", nil, 200},
		"no :authority":         {"GET", "a.example", http.Header{"Host": {"a.example"}}, 200},
		"both alike":            {"GET", "a.example", http.Header{"Host": {"A.example"}}, 200},
		"both differ":           {"GET", "a.example", http.Header{"Host": {"b.example"}}, 400},
		"two hosts":             {"GET", "a.example", http.Header{"Host": {"a.example", "b.example"}}, 400},
		"two hosts alike":       {"GET", "a.example", http.Header{"Host": {"a.example", "a.example"}}, 400},
		"no host":               {"GET", "", nil, 400},
		"another port":          {"GET", "a.example:1", http.Header{"Host": {"a.example:2"}}, 400},
		"lower case":            {"get", "a.example", nil, 400},
		"two passwords":         {"GET", "a.example", http.Header{"Authorization": {"Basic YTpi", "Basic YTpj"}}, 400},
		"two conditions":        {"GET", "a.example", http.Header{"If-None-Match": {`"a"`, `"b"`}}, 400},
		"two lengths":           {"POST", "a.example", http.Header{"Content-Length": {"1", "1"}}, 400},
		"what may be repeated":  {"GET", "a.example", http.Header{"Cookie": {"a=1", "b=2"}, "X-A": {"1", "2"}}, 200},
		"a method with letters": {"M-SEARCH", "a.example", nil, 200},
	} {
		r := httptest.NewRequest(c.method, "https://a.example/", nil)
		r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host = "HTTP/2.0", 2, 0, c.authority
		for name, values := range c.header {
			r.Header[name] = values
		}
		testkit.Equal(t, responseTo(h, r).status, c.want, name)
	}
}

// net/http leaves a Host field in the header of an HTTP/2 request. An application receives one
// HTTP_HOST, and no HTTP_PROXY.
func TestApplicationGetsOneHost(t *testing.T) {
	h := confFront(t, "", "location / { fastcgi_pass "+application(t, nil, "")+"; }", nil)
	r := httptest.NewRequest("GET", "https://a.example/", nil)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header["Host"], r.Header["Proxy"] = []string{"a.example"}, []string{"http://evil/"}
	var params map[string]string
	testkit.Must(t, json.Unmarshal([]byte(responseTo(h, r).body), &params))
	testkit.Equal(t, []string{params["(twice)"], params["HTTP_HOST"], params["HTTP_PROXY"]}, []string{"", "a.example", ""})
}

// CONNECT needs a host and a port. After CONNECT and TRACE a connection of HTTP/1 closes.
func TestConnectAndTraceAreRejected(t *testing.T) {
	h := confFront(t, "", "return 200 fine;", nil)
	for line, want := range map[string]int{
		"TRACE /": 405, "CONNECT a.example:443": 405, "CONNECT [::1]:443": 405, "CONNECT a.example": 400,
		"CONNECT a.example:": 400, "CONNECT a.example:0": 400, "CONNECT a.example:65536": 400, "CONNECT :443": 400,
		"CONNECT /": 400,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.RequestURI, _ = strings.Cut(line, " ")
		got := responseTo(h, r)
		got.is(t, want)
		testkit.Fields(t, got.header, line, "Connection", "close")
	}
}

package front_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarehq/tare/front/conf"
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
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if test.want == "" && w.Code != http.StatusMisdirectedRequest || test.want != "" &&
			w.Body.String() != test.want {
			t.Errorf("%v %s: %d %q, want %q", test.local, test.host, w.Code, w.Body, test.want)
		}
	}
}

// If all hosts listen on the same addresses the address does not matter.
func TestSameHostsEverywhereNeedNoAddress(t *testing.T) {
	first, second := hostListening("first", "127.0.0.1:80", "[::1]:80"),
		hostListening("second", "[::1]:80", "127.0.0.1:80")
	h := newFront(t, conf.Config{Hosts: []conf.Host{first, second}})
	if got := get(t, h, "/", "Host", "second"); got.body != "second" {
		t.Errorf("%q", got.body)
	}
	if got := get(t, h, "/", "Host", "x"); got.body != "first" {
		t.Errorf("%q", got.body)
	}
	if got := get(t, h, "/", "Host", "a/b"); got.status != 400 {
		t.Errorf("%d", got.status)
	}
	anywhere := newFront(t, conf.Config{Hosts: []conf.Host{hostListening("anywhere"), hostListening("first",
		"127.0.0.1:80")}})
	for host, want := range map[string]string{"x": "anywhere", "first": "anywhere"} {
		if got := get(t, anywhere, "/", "Host", host); got.body != want {
			t.Errorf("%s: %q", host, got.body)
		}
	}
}

package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// guarded is an upstream that redirects clients with a cookie to a protected path, and responds
// with what it received.
func guarded(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=600")
	if r.URL.Path != "/protected/x" && r.Header.Get("Cookie") == "" {
		w.Header().Del("Cache-Control")
		w.WriteHeader(http.StatusForbidden)
	} else if r.URL.Path != "/protected/x" {
		w.Header().Set("X-Accel-Redirect", "/protected/x")
	}
	fmt.Fprint(w, r.URL.Path)
}

// A response with X-Accel-Redirect is for one client: it is not stored, and its result is not
// stored under the path of the request.
func TestAccelRedirectIsNotStored(t *testing.T) {
	to := serve(t, guarded)
	for name, pc := range map[string]conf.ProxyCache{"usual key": {}, "lock": {Policy: conf.CachePolicy{Lock: true}},
		"own key": {Key: "$uri"}} {
		c := cached(to, pc, conf.Cache{Name: "one"})
		inner := conf.Location{Path: "/protected/", Settings: c.Hosts[0].Locations[0].Settings, Internal: true,
			Proxy: c.Hosts[0].Locations[0].Proxy}
		c.Hosts[0].Locations = append(c.Hosts[0].Locations, inner)
		a := serveHandler(t, newFront(t, c))
		for range 2 {
			if got := a.get("/x", "Cookie", "session=1"); got.status != 200 || got.body != "/protected/x" {
				t.Errorf("%s: with a cookie: %d %q", name, got.status, got.body)
			}
			if got := a.get("/x"); got.status != 403 {
				t.Errorf("%s: without a cookie: %d %q, want 403", name, got.status, got.body)
			}
		}
	}
}

// Vary refers to the request that the upstream receives, not to the client's.
func TestVaryRefersToUpstreamRequest(t *testing.T) {
	h := numberedHandler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "X-Lang, X-Set, X-Gone, Range, Te, Connection, Host")
		w.Header().Set("X-Got", r.Header.Get("X-Lang")+"|"+r.Header.Get("X-Set")+"|"+r.Header.Get("X-Gone"))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	go fcgi.Serve(l, h)
	for _, kind := range []string{"memory", "disk", "fastcgi"} {
		cache, p := conf.Cache{Name: "one"}, &conf.Proxy{To: conf.Text(serve(t, h)),
			Header: []conf.Field{{Name: "X-Set", Value: "$arg_set$cookie_set"}, {Name: "X-Gone"}}}
		switch kind {
		case "disk":
			cache.Dir = t.TempDir()
		case "fastcgi":
			p = &conf.Proxy{To: conf.Text(l.Addr().String()), Protocol: kind, Params: []conf.Param{
				{Name: "REQUEST_METHOD", Value: "$request_method"}, {Name: "SERVER_PROTOCOL", Value: "HTTP/1.1"},
				{Name: "HTTP_X_SET", Value: "$arg_set$cookie_set"}, {Name: "HTTP_X_GONE"}}}
		}
		c := cached(string(p.To), conf.ProxyCache{Key: "$uri"}, cache)
		p.Cache, c.Hosts[0].Locations[0].Proxy = c.Hosts[0].Locations[0].Proxy.Cache, p
		a := serveHandler(t, newFront(t, c))
		for _, test := range []struct {
			path, state, got string
			fields           []string
		}{
			{"/x", "MISS", "||", []string{"X-Lang", "de", "Connection", "X-Lang"}},
			{"/x", "MISS", "de||", []string{"X-Lang", "de"}},
			{"/x", "HIT", "de||", []string{"X-Lang", "de", "X-Set", "client", "X-Gone", "client", "Range", "bytes=0-"}},
			{"/x", "MISS", "||", nil},
			{"/x", "HIT", "||", []string{"X-Lang", "de", "Connection", "close, x-LANG"}},
			{"/x", "MISS", "|a|", []string{"Cookie", "set=a"}},
			{"/x?set=a", "HIT", "|a|", nil},
			{"/x", "MISS", "|b|", []string{"Cookie", "set=b"}},
			{"/x", "HIT", "||", []string{"Under_Score", "x", "Te", "trailers"}},
		} {
			if got := a.get(test.path, test.fields...); got.header.Get("X-Cache") != test.state ||
				got.header.Get("X-Got") != test.got {
				t.Errorf("%s: %s %q: %s %q, want %s %q", kind, test.path, test.fields, got.header.Get("X-Cache"),
					got.header.Get("X-Got"), test.state, test.got)
			}
		}
	}
}

// A client that removes a field by Connection gets a response without the field. It is not stored
// under a key with it.
func TestConnectionCannotPoisonKey(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", r.Header.Get("X-Lang")+r.Header.Get("Cookie"))
	})
	for _, key := range []conf.Text{"$uri$http_x_lang", "$uri$cookie_lang", "$uri$mapped"} {
		c := cached(to, conf.ProxyCache{Key: key}, conf.Cache{Name: "one"})
		c.Maps = []conf.Map{{Name: "mapped", Source: "$http_x_lang", Cases: []conf.Case{{From: "de", To: "german"}}}}
		a := serveHandler(t, newFront(t, c))
		for _, field := range []string{"X-Lang", "Cookie"} {
			value := map[string]string{"X-Lang": "de", "Cookie": "lang=de"}[field]
			a.get("/"+field, field, value, "Connection", field)
			if got := a.get("/"+field, field, value); got.header.Get("X-Cache") != "MISS" ||
				got.header.Get("X-Got") != value {
				t.Errorf("%s, %s: %s %q", key, field, got.header.Get("X-Cache"), got.header.Get("X-Got"))
			}
			if got := a.get("/"+field, field, value, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c",
				"HTTP2-Settings", "x"); got.header.Get("X-Cache") != "HIT" {
				t.Errorf("%s, %s: %s for a client that offers HTTP/2, want HIT", key, field, got.header.Get("X-Cache"))
			}
		}
	}
}

// Credentials for the upstream count, whatever their source. Constant ones are shared by all
// clients.
func TestSetAuthorizationPreventsSharing(t *testing.T) {
	for _, test := range []struct {
		value, key conf.Text
		want       string
	}{
		{"Basic eDp5", "$uri", "HIT"}, {"", "$uri", "HIT"}, {"Bearer $cookie_token", "$uri", "MISS"},
		{"Bearer $cookie_token", "$uri${cookie_token}", "HIT"},
		{"$http_authorization", "$uri", "MISS"}, {"$http_authorization", "$uri$http_authorization", "HIT"},
	} {
		to, _ := numbered(t, nil)
		c := cached(to, conf.ProxyCache{Key: test.key}, conf.Cache{Name: "one"})
		c.Hosts[0].Locations[0].Proxy.Header = []conf.Field{{Name: "authorization", Value: test.value}}
		a := serveHandler(t, newFront(t, c))
		for _, want := range []string{"MISS", test.want} {
			if got := a.get("/x", "Authorization", "Basic YTpi", "Cookie",
				"token=1").header.Get("X-Cache"); got != want {
				t.Errorf("%q by %q: %s, want %s", test.value, test.key, got, want)
			}
		}
	}
}

// A body that is in the key identifies another resource, whose response is stored.
func TestCacheKeyHasBody(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		_, _ = io.Copy(w, r.Body)
	})
	a := serveHandler(t, newFront(t, cached(to, conf.ProxyCache{Key: "$uri $request_body"},
		conf.Cache{Name: "one"})))
	for _, state := range []string{"MISS", "HIT"} {
		for _, body := range []string{"a", "b"} {
			a.do("GET", "/x", strings.NewReader(body)).want(t, state, 200, body)
		}
	}
	long := strings.Repeat("x", 100<<10) // too long for a variable
	for range 2 {
		a.do("GET", "/x", strings.NewReader(long)).want(t, "MISS", 200, long)
	}
}

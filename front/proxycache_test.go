package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// cached returns a Config of a host that proxies everything to an upstream, with a cache.
func cached(to string, pc conf.ProxyCache, caches ...conf.Cache) conf.Config {
	pc.Zone = conf.Text(caches[0].Name)
	c := oneHost(conf.Location{
		Path: "/", Proxy: &conf.Proxy{To: conf.Text(to), Cache: &pc},
		Settings: &conf.Settings{Header: []conf.AddHeader{{Name: "X-Cache", Value: "$upstream_cache_status",
			Always: true}}},
	})
	c.Caches = caches
	return c
}

// cachedBy returns a Config whose locations use a cache.
func cachedBy(t *testing.T, outer, server string) conf.Config {
	t.Helper()
	return parseConf(t, outer+" proxy_cache_path DIR/cache keys_zone=one:1m;",
		"proxy_cache one; add_header X-Cache $upstream_cache_status always; "+server)
}

// numbered is an upstream with numbered responses, to which f may add.
func numbered(t testing.TB, f http.HandlerFunc) (address string, server *httptest.Server) {
	server = httptest.NewServer(numberedHandler(f))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), server
}

func numberedHandler(f http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		if f != nil {
			f(w, r)
		}
		fmt.Fprintf(w, "%d %s %s", n.Add(1), r.Host, r.URL.Path)
	}
}

// want fails unless the response has the cache state, the status and the body.
func (r response) want(t testing.TB, state string, status int, body string) {
	t.Helper()
	r.is(t, status, body)
	testkit.Equal(t, r.header.Get("X-Cache"), state, r.request)
}

// Hosts do not share responses if the upstream receives the host, or if they vary by it although the
// key has none.
func TestHostsDoNotShareResponses(t *testing.T) {
	for key, vary := range map[conf.Text]string{"": "", "$request_uri": "Accept-Encoding, host"} {
		to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Vary", vary) })
		c := cached(to, conf.ProxyCache{Key: key}, conf.Cache{Name: "one", Dir: t.TempDir()})
		c.Hosts[0].Locations[0].Proxy.Header = []conf.Field{{Name: "host", Value: "$host"}}
		a := serveHandler(t, newFront(t, c))
		for _, state := range []string{"MISS", "HIT"} {
			a.get("/x").want(t, state, 200, "1 front.test /x")
			a.get("http://other.test/x").want(t, state, 200, "2 other.test /x")
		}
	}
}

// Variables show the cache state and the attempts of an upstream that fails.
func TestCacheStateOfFailuresIsLogged(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for timeouts")
	to, server := numbered(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age="+r.FormValue("for"))
	})
	c := cached(to, conf.ProxyCache{Skip: []conf.Text{"$arg_skip"}}, conf.Cache{Name: "one"})
	c.Hosts[0].Locations = append(c.Hosts[0].Locations, conf.Location{Match: "=", Path: "/metrics", Metrics: true})
	a := serveHandler(t, newFront(t, c))
	a.get("/x?for=1").want(t, "MISS", 200, "1 "+to+" /x")
	testkit.WaitFor(t, "a stale response",
		func() bool { return a.get("/x?for=1").header.Get("X-Cache") == "EXPIRED" })
	server.Close()
	testkit.WaitFor(t, "the end of freshness", func() bool { return a.get("/x?for=1").status != 200 })
	for path, want := range map[string]string{"/x?for=1": "EXPIRED", "/y": "MISS", "/y?skip=1": "BYPASS"} {
		r := a.get(path)
		r.is(t, 502)
		testkit.Equal(t, r.header.Get("X-Cache"), want, path)
	}
	r := a.do("POST", "/y", strings.NewReader("x"))
	r.is(t, 502)
	testkit.Fields(t, r.header, "a POST", "X-Cache", "")
	testkit.Contains(t, a.get("/metrics").body, `state="BYPASS"} 1`, "metrics of failures")
}

// A request may be logged while its cache continues the upstream request: the race detector checks
// this.
func TestLoggingDuringUpdateHasNoRace(t *testing.T) {
	to, _ := numbered(t, nil)
	policy := conf.CachePolicy{Stale: conf.CacheStale{Updating: true}, Background: true,
		Ignore: []string{"Cache-Control"},
		Valid:  []conf.CacheValid{{For: time.Millisecond}}}
	c := cached(to, conf.ProxyCache{Policy: policy}, conf.Cache{Name: "one"})
	c.LogFormats = []conf.LogFormat{{Name: "up", Text: "$upstream_addr $upstream_status"}}
	c.Hosts[0].Locations[0].Settings.Logs = []conf.Log{{Path: filepath.Join(t.TempDir(), "log"), Format: "up"}}
	a := serveHandler(t, newFront(t, c))
	stale := 0
	testkit.WaitFor(t, "stale responses", func() bool {
		if a.get("/x").header.Get("X-Cache") == "STALE" {
			stale++
		}
		return stale == 10
	})
}

// A request purges its key if the texts allow it.
func TestAllowedRequestPurges(t *testing.T) {
	to, _ := numbered(t, nil)
	c := cachedBy(t, `map $request_method$http_x_secret $purge { PURGEknown 1; default 0; }`, "error_page 404 /404; location / { "+
		"proxy_pass http://"+to+`; proxy_cache_key $host$request_uri; proxy_cache_purge "" 0 $purge; }
		location = /404 { return 200 "none\n"; }`)
	a := serveHandler(t, newFront(t, c))
	for i, path := range []string{"/a/1", "/a/2", "/b"} {
		a.get(path).want(t, "MISS", 200, fmt.Sprintf("%d %s %s", i+1, to, path))
	}
	a.do("PURGE", "/b", nil).want(t, "", 200, "4 "+to+" /b") // without permission it is forwarded
	purge := func(path string) response { return a.do("PURGE", path, nil, "X-Secret", "known") }
	a.get("/a/1").want(t, "HIT", 200, "1 "+to+" /a/1")
	purge("/a/1").want(t, "", 204, "")
	purge("/a/1").want(t, "", 404, "none\n")
	a.get("/a/1").want(t, "MISS", 200, "5 "+to+" /a/1")
	a.get("/a/2").want(t, "HIT", 200, "2 "+to+" /a/2")
	purge("/a/*").want(t, "", 204, "")
	purge("/a/*").want(t, "", 404, "none\n")
	a.get("/a/2").want(t, "MISS", 200, "6 "+to+" /a/2")
	purge("/").want(t, "", 404, "none\n")
	purge("/*").want(t, "", 204, "")
}

// Cached responses outlive a reload, within the new limits, and a failed reload changes nothing.
func TestCacheOutlivesReload(t *testing.T) {
	to, _ := numbered(t, nil)
	config := conf.Cache{Name: "one", Dir: t.TempDir()}
	h := newFront(t, cached(to, conf.ProxyCache{}, config))
	a := serveHandler(t, h)
	body := "1 " + to + " /x"
	a.get("/x").want(t, "MISS", 200, body)
	testkit.Must(t, h.Reload(cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}}, config)))
	a.get("/x").want(t, "HIT", 200, body)
	small := config
	small.MaxBytes = 1
	testkit.Error(t, h.Reload(cached(to, conf.ProxyCache{Key: "$nothing"}, small)), "$nothing")
	a.get("/x").want(t, "HIT", 200, body)
	testkit.Must(t, h.Reload(cached(to, conf.ProxyCache{}, small)))
	var r response
	testkit.WaitFor(t, "the end of the write to disk", func() bool {
		r = a.get("/x")
		return r.header.Get("X-Cache") != "HIT"
	})
	r.want(t, "MISS", 200, "2 "+to+" /x")
}

// A failed reload touches no file of a cache in use, even with other directory levels.
func TestFailedReloadKeepsCacheFiles(t *testing.T) {
	to, _ := numbered(t, nil)
	dir := t.TempDir()
	h := newFront(t, cached(to, conf.ProxyCache{}, conf.Cache{Name: "one", Dir: dir}))
	a := serveHandler(t, h)
	a.get("/x").want(t, "MISS", 200, "1 "+to+" /x")
	files := func() int {
		names := testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t)
		return len(names)
	}
	// one, and the directory of temporary files
	testkit.WaitFor(t, "the files", func() bool { return files() == 2 })
	testkit.Error(t, h.Reload(cached(to, conf.ProxyCache{Key: "$nothing"},
		conf.Cache{Name: "one", Dir: dir, Levels: []int{1}})), "$nothing")
	testkit.Equal(t, files(), 2, "files")
	testkit.Must(t, h.Reload(cached(to, conf.ProxyCache{}, conf.Cache{Name: "one", Dir: dir, Levels: []int{1}})))
	n := testkit.Value(h.Purge("one", "*"))(t) // which waits for the search
	testkit.Equal(t, n, 0, "responses of other levels that were kept")
	testkit.Fails(h.Purge("two", "x"))(t, "two")
	a.get("/x").want(t, "MISS", 200, "2 "+to+" /x")
}

// Early hints are forwarded to the waiting client, and not stored. The Date of a stored response is
// its own.
func TestEarlyHintsAreNotStored(t *testing.T) {
	const date = "Sat, 01 Jan 2000 00:00:00 GMT"
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Date", date)
		_, _ = io.WriteString(w, "body")
	})
	a := serveHandler(t, newFront(t, cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}},
		conf.Cache{Name: "one"})))
	for _, test := range []struct {
		state string
		hints []string
	}{{"MISS", []string{"103 </a.css>; rel=preload"}}, {"HIT", nil}} {
		var hints []string
		r := testkit.Value(http.NewRequestWithContext(hinted(t, &hints), "GET", "http://x/", nil))(t)
		resp := testkit.Value(a.client.Do(r))(t)
		b := testkit.Value(io.ReadAll(resp.Body))(t)
		resp.Body.Close()
		testkit.Equal(t, string(b), "body", test.state)
		testkit.Equal(t, hints, test.hints, test.state)
		testkit.Fields(t, resp.Header, test.state, "X-Cache", test.state, "Link", "", "Date", date)
	}
}

// Upstreams may confuse X_Lang with X-Lang. If such names are forwarded, a Vary for X-Lang covers
// both, and a response is not stored if the key lacks a field.
func TestUnderscoresCannotPoisonCache(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/vary") {
			w.Header().Set("Vary", "X-Lang")
		}
	})
	c := cachedBy(t, "", strings.ReplaceAll(`underscores_in_headers on;
		location / { proxy_pass TO; proxy_cache_key $uri$http_x_lang$http_user_agent; }
		location /vary { proxy_pass TO; proxy_cache_key $uri; }`, "TO", "http://"+to))
	a := serveHandler(t, newFront(t, c))
	for _, test := range []struct {
		path, state string
		fields      []string
	}{
		{"/vary/1", "MISS", []string{"X_Lang", "other"}}, {"/vary/1", "MISS", nil}, {"/vary/1", "HIT", nil},
		{"/vary/2", "MISS", []string{"X_Lang", "b", "X-Lang", "a"}}, {"/vary/2", "MISS", []string{"X-Lang", "a,b"}},
		{"/vary/2", "MISS", []string{"X-Lang", "a"}},
		{"/vary/3", "MISS", []string{"X_Lang", "a"}}, {"/vary/3", "HIT", []string{"X_Lang", "a"}},
		{"/vary/3", "MISS", []string{"X-Lang", "a"}},
		{"/key/1", "MISS", []string{"X_Lang", "b", "X-Lang", "a"}}, {"/key/1", "MISS", []string{"X-Lang", "a"}},
		{"/key/1", "HIT", []string{"X-Lang", "a"}},
		{"/key/2", "MISS", []string{"User_Agent", "b"}}, {"/key/2", "MISS", nil}, {"/key/2", "HIT", nil},
		{"/key/3", "MISS", []string{"X_Lang", "a"}}, {"/key/3", "HIT", []string{"X_Lang", "a"}},
		{"/key/3", "MISS", nil},
		{"/key/4", "MISS", []string{"X_Other", "a"}}, {"/key/4", "HIT", []string{"X_Other", "a"}},
	} {
		testkit.Equal(t, a.get(test.path, append(test.fields, "User-Agent", "")...).header.Get("X-Cache"), test.state,
			test.path, test.fields)
	}
}

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
	for _, pc := range []conf.ProxyCache{{}, {Policy: conf.CachePolicy{Lock: true}}, {Key: "$uri"}} {
		c := cached(to, pc, conf.Cache{Name: "one"})
		inner := conf.Location{Path: "/protected/", Settings: c.Hosts[0].Locations[0].Settings, Internal: true,
			Proxy: c.Hosts[0].Locations[0].Proxy}
		c.Hosts[0].Locations = append(c.Hosts[0].Locations, inner)
		a := serveHandler(t, newFront(t, c))
		for range 2 {
			a.get("/x", "Cookie", "session=1").is(t, 200, "/protected/x")
			a.get("/x").is(t, 403)
		}
	}
}

// Vary refers to the request that the upstream receives, not to the client's.
func TestVaryRefersToUpstreamRequest(t *testing.T) {
	h := numberedHandler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "X-Lang, X-Set, X-Gone, Range, Te, Connection, Host")
		w.Header().Set("X-Got", r.Header.Get("X-Lang")+"|"+r.Header.Get("X-Set")+"|"+r.Header.Get("X-Gone"))
	})
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
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
			got := a.get(test.path, test.fields...)
			testkit.Fields(t, got.header, fmt.Sprint(kind, test.fields), "X-Cache", test.state, "X-Got", test.got)
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
			got := a.get("/"+field, field, value)
			testkit.Fields(t, got.header, string(key)+", "+field, "X-Cache", "MISS", "X-Got", value)
			got = a.get("/"+field, field, value, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c",
				"HTTP2-Settings", "x")
			testkit.Fields(t, got.header, string(key)+", "+field+", a client that offers HTTP/2", "X-Cache", "HIT")
		}
	}
}

// Responses to requests with credentials are stored only if the key has them, whatever their source.
// Constant ones are shared by all clients.
func TestSetAuthorizationPreventsSharing(t *testing.T) {
	for _, test := range []struct {
		value, key conf.Text
		want       string
	}{
		{"Basic eDp5", "$uri", "HIT"}, {"", "$uri", "HIT"}, {"Bearer $cookie_token", "$uri", "MISS"},
		{"Bearer $cookie_token", "$uri${cookie_token}", "HIT"},
		{"$http_authorization", "$uri", "MISS"}, {"$http_authorization", "$uri$http_authorization", "HIT"},
		{"client's", "$uri$http_authorization", "HIT"}, {"client's", "$uri${HTTP_authorization}x", "HIT"},
		{"client's", "$uri$http_authorization_kind", "MISS"},
		{"client's", "$uri$http_authorization_kind$http_authorization", "HIT"},
	} {
		to, _ := numbered(t, nil)
		c := cached(to, conf.ProxyCache{Key: test.key}, conf.Cache{Name: "one"})
		if test.value != "client's" {
			c.Hosts[0].Locations[0].Proxy.Header = []conf.Field{{Name: "authorization", Value: test.value}}
		}
		a := serveHandler(t, newFront(t, c))
		for _, want := range []string{"MISS", test.want} {
			got := a.get("/x", "Authorization", "Basic YTpi", "Cookie", "token=1").header.Get("X-Cache")
			testkit.Equal(t, got, want, test.value, "by", test.key)
		}
	}
}

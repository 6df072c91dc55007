package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// usingCache are directives with which locations use a cache.
const usingCache = "proxy_cache one; add_header X-Cache $upstream_cache_status always; "

// cacheConf returns a Config whose locations use a cache, which has a path and parameters.
func cacheConf(t testing.TB, outer, path, server string) conf.Config {
	t.Helper()
	return parseConf(t, outer+" proxy_cache_path "+path+" keys_zone=one:1m;", usingCache+server)
}

// serveCached serves a server block whose locations use a cache in memory.
func serveCached(t testing.TB, server string, bound handlers, options ...front.Option) *testClient {
	t.Helper()
	return serveHandler(t, confFront(t, "proxy_cache_path DIR/cache keys_zone=one:1m;", usingCache+server, bound,
		append(options, front.CachesInMemory())...))
}

// numbered is an upstream with numbered responses, to which f may add.
func numbered(t testing.TB, f http.HandlerFunc) (address string, server *httptest.Server) {
	server = serveTest(t, numberedHandler(f), nil)
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
	for directives, vary := range map[string]string{"": "", "proxy_cache_key $request_uri;": "Accept-Encoding, host"} {
		to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Vary", vary) })
		a := serveHandler(t, newFront(t, cacheConf(t, "", "DIR/cache", directives+
			"location / { proxy_pass http://"+to+"; proxy_set_header host $host; }")))
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
	a := serveCached(t, "location / { proxy_pass http://"+to+`; proxy_cache_bypass $arg_skip; }
		location = /metrics { stub_status prometheus; }`, nil)
	a.get("/x?for=1").want(t, "MISS", 200, "1 "+to+" /x")
	testkit.WaitFor(t, "a stale response",
		func() bool { return a.get("/x?for=1").header.Get("X-Cache") == "EXPIRED" })
	server.Close()
	testkit.WaitFor(t, "the end of freshness", func() bool { return a.get("/x?for=1").status != 200 })
	for request, want := range map[string]string{"GET /x?for=1": "EXPIRED", "GET /y": "MISS", "GET /y?skip=1": "BYPASS",
		"POST /y": ""} {
		method, path, _ := strings.Cut(request, " ")
		r := a.do(method, path, nil)
		r.is(t, 502)
		testkit.Equal(t, r.header.Get("X-Cache"), want, request)
	}
	testkit.Contains(t, a.get("/metrics").body, `state="BYPASS"} 1`, "metrics of failures")
}

// A request may be logged while its cache continues the upstream request: the race detector checks
// this.
func TestLoggingDuringUpdateHasNoRace(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Accel-Expires", "@1") })
	a := serveConf(t, `log_format up "$upstream_addr $upstream_status"; proxy_cache_path DIR/cache keys_zone=one:1m;`,
		usingCache+"access_log DIR/log up; proxy_cache_use_stale updating; proxy_cache_background_update on; "+
			passTo(to))
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
	const outer = "map $request_method$http_x_secret $purge { PURGEknown 1; default 0; }"
	a := serveHandler(t, newFront(t, cacheConf(t, outer, "DIR/cache", `proxy_cache_key $host$request_uri; proxy_cache_purge "" 0 $purge; error_page 404 /404;
		location = /404 { return 200 "none\n"; } `+passTo(to))))
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
	purge("/").want(t, "", 404, "none\n")
}

// Cached responses outlive a reload, within the new limits, and a failed reload changes nothing.
func TestCacheOutlivesReload(t *testing.T) {
	to, _ := numbered(t, nil)
	dir := t.TempDir()
	config := func(limits, directives string) conf.Config {
		return cacheConf(t, "", dir+limits, directives+passTo(to))
	}
	h := newFront(t, config("", ""))
	a := serveHandler(t, h)
	body := "1 " + to + " /x"
	a.get("/x").want(t, "MISS", 200, body)
	testkit.Must(t, h.Reload(config("", "proxy_cache_lock on;")))
	a.get("/x").want(t, "HIT", 200, body)
	small := config(" max_size=1", "")
	bad := config(" max_size=1", "")
	bad.Hosts[0].Locations[0].Proxy.Cache.Key = "$nothing"
	testkit.Error(t, h.Reload(bad), "$nothing")
	a.get("/x").want(t, "HIT", 200, body)
	testkit.Must(t, h.Reload(small))
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
	config := func(levels string) conf.Config {
		return cacheConf(t, "", dir+levels, passTo(to))
	}
	h := newFront(t, config(""))
	a := serveHandler(t, h)
	a.get("/x").want(t, "MISS", 200, "1 "+to+" /x")
	files := func() int { return len(testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t)) }
	// one, and the directory of temporary files
	testkit.WaitFor(t, "the files", func() bool { return files() == 2 })
	bad := config(" levels=1")
	bad.Hosts[0].Locations[0].Proxy.Cache.Key = "$nothing"
	testkit.Error(t, h.Reload(bad), "$nothing")
	testkit.Equal(t, files(), 2, "files")
	testkit.Must(t, h.Reload(config(" levels=1")))
	testkit.WaitFor(t, "the end of the files of other levels", func() bool { return files() == 1 })
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
	a := serveCached(t, "proxy_cache_lock on; "+passTo(to), nil)
	for _, state := range []string{"MISS", "HIT"} {
		hints := []string(nil)
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			}})
		r := testkit.Value(http.NewRequestWithContext(ctx, "GET", "http://x/", nil))(t)
		resp := testkit.Value(a.client.Do(r))(t)
		testkit.Reads(t, resp.Body, "body", state)
		resp.Body.Close()
		testkit.Equal(t, hints, map[string][]string{"MISS": {"103 </a.css>; rel=preload"}}[state], state)
		testkit.Fields(t, resp.Header, state, "X-Cache", state, "Link", "", "Date", date)
	}
}

// A response with X-Accel-Redirect is for one client, here for those with a cookie: it is not stored,
// and its result is not stored under the path of the request.
func TestAccelRedirectIsNotStored(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch isInner := r.URL.Path == "/protected/x"; {
		case !isInner && r.Header.Get("Cookie") == "":
			w.WriteHeader(http.StatusForbidden)
		case !isInner:
			w.Header().Set("X-Accel-Redirect", "/protected/x")
			fallthrough
		default:
			w.Header().Set("Cache-Control", "max-age=600")
		}
		fmt.Fprint(w, r.URL.Path)
	})
	for _, directives := range []string{"", "proxy_cache_lock on;", "proxy_cache_key $uri;"} {
		a := serveCached(t, directives+strings.ReplaceAll(`location / { proxy_pass TO; }
			location /protected/ { internal; proxy_pass TO; }`, "TO", "http://"+to), nil)
		for range 2 {
			a.get("/x", "Cookie", "session=1").is(t, 200, "/protected/x")
			a.get("/x").is(t, 403)
		}
	}
}

// sharingCase is a location with a cache, and requests to it.
type sharingCase struct {
	name, directives string
	requests         [][2]string // path and fields; the cache's state, and what the upstream received if that matters
}

func sharingCases(proxied, fastCGI string) (all []sharingCase) {
	proxied = "proxy_pass http://" + proxied + "; "
	fastCGI = "fastcgi_pass " + fastCGI + `; fastcgi_cache two; fastcgi_cache_key $uri;
		fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SERVER_PROTOCOL HTTP/1.1;`
	// Vary names fields of the request that the upstream receives, not of the client's.
	vary := [][2]string{
		{"/x X-Lang: de;Connection: X-Lang", "MISS ||"}, {"/x X-Lang: de", "MISS de||"},
		{"/x X-Lang: de;X-Set: client;X-Gone: client;Range: bytes=0-", "HIT de||"}, {"/x", "MISS ||"},
		{"/x X-Lang: de;Connection: close, x-LANG", "HIT ||"}, {"/x Cookie: set=a", "MISS |a|"},
		{"/x?set=a", "HIT |a|"}, {"/x Cookie: set=b", "MISS |b|"}, {"/x Under_Score: x;Te: trailers", "HIT ||"},
	}
	all = append(all, sharingCase{"Vary", proxied + `proxy_cache_key $uri; proxy_set_header X-Gone "";
		proxy_set_header X-Set $arg_set$cookie_set;`, vary}, sharingCase{"Vary, FastCGI", fastCGI + `
		fastcgi_param HTTP_X_SET $arg_set$cookie_set; fastcgi_param HTTP_X_GONE "";`, vary})
	// Upstreams may confuse X_Lang with X-Lang. If such names are forwarded, a Vary for X-Lang covers
	// both, and a response is not stored if the key lacks a field.
	all = append(all, sharingCase{"Vary, underscores", proxied + "proxy_cache_key $uri;", [][2]string{
		{"/1 X_Lang: other", "MISS"}, {"/1", "MISS"}, {"/1", "HIT"},
		{"/2 X_Lang: b;X-Lang: a", "MISS"}, {"/2 X-Lang: a,b", "MISS"}, {"/2 X-Lang: a", "MISS"},
		{"/3 X_Lang: a", "MISS"}, {"/3 X_Lang: a", "HIT"}, {"/3 X-Lang: a", "MISS"},
	}}, sharingCase{"key, underscores", proxied + "proxy_cache_key $uri$http_x_lang$http_user_agent;", [][2]string{
		{"/1 X_Lang: b;X-Lang: a", "MISS"}, {"/1 X-Lang: a", "MISS"}, {"/1 X-Lang: a", "HIT"},
		{"/2 User_Agent: b", "MISS"}, {"/2", "MISS"}, {"/2", "HIT"},
		{"/3 X_Lang: a", "MISS"}, {"/3 X_Lang: a", "HIT"}, {"/3", "MISS"},
		{"/4 X_Other: a", "MISS"}, {"/4 X_Other: a", "HIT"},
	}})
	// A client that removes a field by Connection gets a response without the field. It is not stored
	// under a key with it.
	for _, key := range []string{"$http_x_lang", "$cookie_lang", "$mapped"} {
		const offer = ";Connection: Upgrade, HTTP2-Settings;Upgrade: h2c;HTTP2-Settings: x"
		all = append(all, sharingCase{"Connection", proxied + "proxy_cache_key $uri" + key + ";", [][2]string{
			{"/1 X-Lang: de;Connection: X-Lang", ""}, {"/1 X-Lang: de", "MISS de"}, {"/1 X-Lang: de" + offer, "HIT de"},
			{"/2 Cookie: lang=de;Connection: Cookie", ""}, {"/2 Cookie: lang=de", "MISS |||lang=de"},
			{"/2 Cookie: lang=de" + offer, "HIT |||lang=de"}}})
	}
	// Responses to requests with credentials are stored only if the key has them, whatever their
	// source. Constant ones are shared by all clients.
	for _, c := range []struct{ set, key, second string }{
		{"'Basic eDp5'", "", "HIT"}, {`""`, "", "HIT"}, {"'Bearer $cookie_token'", "", "MISS"},
		{"'Bearer $cookie_token'", "${cookie_token}", "HIT"}, {"$http_authorization", "", "MISS"},
		{"$http_authorization", "$http_authorization", "HIT"}, {"", "$http_authorization", "HIT"},
		{"", "${HTTP_authorization}x", "HIT"}, {"", "$http_authorization_kind", "MISS"},
		{"", "$http_authorization_kind$http_authorization", "HIT"},
	} {
		const request = "/x Authorization: Basic YTpi;Cookie: token=1"
		set := proxied
		if c.set != "" {
			set += "proxy_set_header authorization " + c.set + ";"
		}
		all = append(all, sharingCase{"credentials", set + " proxy_cache_key $uri" + c.key + ";",
			[][2]string{{request, "MISS"}, {request, c.second}}})
	}
	return all
}

// A response in the cache reaches only clients whose requests would have received the same.
func TestCacheKeepsClientsApart(t *testing.T) {
	h := numberedHandler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "X-Lang, X-Set, X-Gone, Range, Te, Connection, Host")
		var got []string
		for _, name := range []string{"X-Lang", "X-Set", "X-Gone", "Cookie"} {
			got = append(got, r.Header.Get(name))
		}
		w.Header().Set("X-Got", strings.Join(got, "|"))
	})
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go fcgi.Serve(l, h)
	for _, c := range sharingCases(serve(t, h), l.Addr().String()) {
		underscores := map[bool]string{true: "on", false: "off"}[strings.Contains(c.name, "underscores")]
		config := cacheConf(t, "map $http_x_lang $mapped { de german; } fastcgi_cache_path DIR/f keys_zone=two:1m;",
			"DIR/cache", "underscores_in_headers "+underscores+"; location / { "+c.directives+" }")
		for _, options := range [][]front.Option{{}, {front.CachesInMemory()}} {
			a := serveHandler(t, newFront(t, config, options...))
			for _, r := range c.requests {
				path, fields, _ := strings.Cut(r[0], " ")
				got := a.get(path, append(fieldsOf(fields), "User-Agent", "")...).header
				if state := got.Get("X-Cache") + " " + got.Get("X-Got"); !strings.HasPrefix(state, r[1]) {
					t.Errorf("%s, %s: %s: %s, want %s", c.name, c.directives, r[0], state, r[1])
				}
			}
		}
	}
}

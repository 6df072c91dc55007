package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// sameCase is a list of requests for which the cache and nginx behave alike. Excluded is what RFC
// 9111 and RFC 5861 require otherwise: Age, Authorization, must-revalidate, stale-if-error of a
// status, ranges without Accept-Ranges.
type sameCase struct {
	name     string
	use      string   // the policy, by name
	fields   []string // fields of the origin's response
	requests []string // "METHOD FIELD: VALUE|…"
	later    []string // requests after a freshness of one second has ended
	status   int      // of the origin's later responses, if different
}

// policies are cache settings, for nginx and as Policy.
func policies() map[string]struct {
	nginx  string
	policy conf.CachePolicy
} {
	type policy = struct {
		nginx  string
		policy conf.CachePolicy
	}
	return map[string]policy{
		"plain": {"", conf.CachePolicy{}},
		"valid": {"proxy_cache_valid 200 1h; proxy_cache_valid 404 2s; proxy_cache_valid 302 0;",
			conf.CachePolicy{Valid: []conf.CacheValid{
				{Statuses: []int{200}, For: time.Hour}, {Statuses: []int{404}, For: 2 * time.Second},
				{Statuses: []int{302}}}}},
		"ignore": {"proxy_cache_valid any 1h; proxy_ignore_headers Cache-Control Expires Set-Cookie Vary X-Accel-Expires;", conf.CachePolicy{
			Valid:  []conf.CacheValid{{For: time.Hour}},
			Ignore: []string{"Cache-Control", "Expires", "Set-Cookie", "Vary", "X-Accel-Expires"}}},
		"stale": {"proxy_cache_use_stale http_503 http_404;",
			conf.CachePolicy{Stale: conf.CacheStale{Statuses: []int{503, 404}}}},
		"again": {"proxy_cache_revalidate on;", conf.CachePolicy{Revalidate: true}},
		"uses":  {"proxy_cache_min_uses 2;", conf.CachePolicy{MinUses: 2}},
		"head":  {"proxy_cache_convert_head off; proxy_cache_key $request_method$uri;", conf.CachePolicy{KeepHead: true}},
		"lock":  {"proxy_cache_lock on;", conf.CachePolicy{Lock: true}},
	}
}

func sameCases() []sameCase {
	const seconds, hour = "Cache-Control: max-age=2", "Cache-Control: max-age=3600"
	const etag, date = `Etag: "v1"`, "Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT"
	twice := []string{"GET", "GET"}
	return []sameCase{
		{name: "no directive", use: "plain", requests: twice},
		{name: "max-age", use: "plain", fields: []string{hour}, requests: twice},
		{name: "two seconds", use: "plain", fields: []string{seconds}, requests: twice, later: twice},
		{name: "max-age=0", use: "valid", fields: []string{"Cache-Control: max-age=0"}, requests: twice},
		{name: "s-maxage", use: "plain", fields: []string{"Cache-Control: max-age=0, s-maxage=60"}, requests: twice},
		{name: "private", use: "valid", fields: []string{"Cache-Control: private, max-age=60"}, requests: twice},
		{name: "no-store", use: "valid", fields: []string{"Cache-Control: no-store"}, requests: twice},
		{name: "no-cache", use: "valid", fields: []string{"Cache-Control: no-cache"}, requests: twice},
		{name: "two lines", use: "plain", fields: []string{hour, "Cache-Control: private"}, requests: twice},
		{name: "Expires", use: "plain", fields: []string{"Expires: Thu, 01 Jan 2099 00:00:00 GMT"}, requests: twice},
		{name: "Expires, wrong weekday", use: "plain", fields: []string{"Expires: Sat, 01 Jan 2100 00:00:00 gmt"},
			requests: twice},
		{name: "Expires of asctime", use: "plain", fields: []string{"Expires: Mon Jan  1 00:00:00 2099"}, requests: twice},
		{name: "Expires is over", use: "valid", fields: []string{"Expires: Thu, 01 Jan 2009 00:00:00 GMT"}, requests: twice},
		{name: "Expires: 0", use: "valid", fields: []string{"Expires: 0"}, requests: twice},
		{name: "max-age before Expires", use: "plain", fields: []string{hour, "Expires: 0"}, requests: twice},
		{name: "X-Accel-Expires", use: "plain", fields: []string{"X-Accel-Expires: 60", hour}, requests: twice},
		{name: "X-Accel-Expires: 0", use: "valid", fields: []string{"X-Accel-Expires: 0"}, requests: twice},
		{name: "X-Accel-Expires: @", use: "plain", fields: []string{"X-Accel-Expires: @4070908800"}, requests: twice},
		{name: "X-Accel-Expires: @1", use: "plain", fields: []string{"X-Accel-Expires: @1", hour}, requests: twice, later: twice},
		{name: "X-Accel-Expires: @1 is stale", use: "stale", fields: []string{"X-Accel-Expires: @1"}, requests: twice,
			later: twice, status: 503},
		{name: "X-Accel-Expires: @0", use: "plain", fields: []string{"X-Accel-Expires: @0", hour}, requests: twice},
		{name: "X-Accel-Expires: @x", use: "plain", fields: []string{"X-Accel-Expires: @x", hour}, requests: twice},
		{name: "X-Accel-Expires: -1", use: "plain", fields: []string{"X-Accel-Expires: -1", hour}, requests: twice},
		{name: "X-Accel-Expires first", use: "plain",
			fields: []string{"X-Accel-Expires: 2", "Expires: Thu, 01 Jan 2099 00:00:00 GMT"}, requests: twice,
			later: twice},
		{name: "Set-Cookie", use: "plain", fields: []string{hour, "Set-Cookie: a=b"}, requests: twice},
		{name: "Valid", use: "valid", requests: twice, later: twice},
		{name: "Valid of 404", use: "valid", fields: []string{":404"}, requests: twice, later: twice},
		{name: "Valid of nothing", use: "valid", fields: []string{":302", "Location: /"}, requests: twice},
		{name: "Valid of others", use: "valid", fields: []string{":410"}, requests: twice},
		{name: "500", use: "plain", fields: []string{":500", hour}, requests: twice},
		{name: "204", use: "plain", fields: []string{":204", hour}, requests: twice},
		{name: "ignored Cache-Control", use: "ignore", fields: []string{"Cache-Control: no-store, private"}, requests: twice},
		{name: "ignored Set-Cookie", use: "ignore", fields: []string{"Set-Cookie: a=b"}, requests: twice},
		{name: "ignored Vary", use: "ignore", fields: []string{"Vary: X"}, requests: []string{"GET X: 1", "GET X: 2"}},
		{name: "ignored Expires", use: "ignore", fields: []string{"Expires: 0", "X-Accel-Expires: 0"}, requests: twice},
		{name: "Vary", use: "plain", fields: []string{hour, "Vary: Accept-Encoding, X"},
			requests: []string{"GET X: 1", "GET X: 2", "GET X: 1", "GET X: 2", "GET", "GET",
				"GET X: 1|Accept-Encoding: gzip, br", "GET X: 1|Accept-Encoding: gzip,br"}},
		{name: "Vary: *", use: "plain", fields: []string{hour, "Vary: *"}, requests: twice},
		{name: "HEAD", use: "plain", fields: []string{hour}, requests: []string{"HEAD", "GET", "HEAD"}},
		{name: "HEAD from GET", use: "plain", fields: []string{hour}, requests: []string{"GET", "HEAD"}},
		{name: "POST", use: "plain", fields: []string{hour}, requests: []string{"POST", "POST"}},
		{name: "If-None-Match", use: "plain", fields: []string{hour, etag},
			requests: []string{`GET If-None-Match: "v1"`, `GET If-None-Match: "v1"`, `GET If-None-Match: W/"v1"`,
				`GET If-None-Match: "v2"`, `GET If-None-Match: "v2", "v1"`, "GET If-None-Match: *"}},
		{name: "If-Modified-Since", use: "plain", fields: []string{hour, date},
			requests: []string{"GET If-Modified-Since: Fri, 31 Dec 1999 00:00:00 GMT",
				"GET If-Modified-Since: Fri, 31 Dec 1999 00:00:00 GMT", "GET If-Modified-Since: x"}},
		{name: "If-Match", use: "plain", fields: []string{hour, etag}, requests: []string{"GET", `GET If-Match: "v1"`}},
		{name: "a condition of what is not kept", use: "plain", fields: []string{etag},
			requests: []string{`GET If-None-Match: "v1"`}},
		{name: "Range", use: "plain", fields: []string{hour, etag, "Accept-Ranges: bytes"},
			requests: []string{"GET Range: bytes=0-0", "GET", "GET Range: bytes=0-0", "GET Range: bytes=-1",
				"GET Range: bytes=100-", `GET Range: bytes=0-0|If-Range: "v1"`, `GET Range: bytes=0-0|If-Range: "v2"`}},
		{name: "revalidated", use: "again", fields: []string{seconds, etag, date}, requests: twice, later: twice, status: 304},
		{name: "no longer so", use: "again", fields: []string{seconds, etag}, requests: twice, later: twice},
		{name: "not revalidated", use: "plain", fields: []string{seconds, etag}, requests: twice, later: twice},
		{name: "503", use: "stale", fields: []string{seconds}, requests: twice, later: twice, status: 503},
		{name: "404 for a stale response", use: "stale", fields: []string{seconds}, requests: twice, later: twice,
			status: 404},
		{name: "502", use: "stale", fields: []string{seconds}, requests: twice, later: twice, status: 502},
		{name: "nothing stale", use: "plain", fields: []string{seconds}, requests: twice, later: twice, status: 503},
		{name: "uses", use: "uses", fields: []string{hour}, requests: []string{"GET", "GET", "GET"}},
		{name: "HEAD stays HEAD", use: "head", fields: []string{hour}, requests: []string{"HEAD", "HEAD", "GET", "GET", "HEAD"}},
		{name: "lock", use: "lock", fields: []string{hour}, requests: twice},
		{name: "bypass", use: "plain", fields: []string{hour},
			requests: []string{"GET", "GET Skip: 1", "GET", "GET Skip: 1|Keep: no", "GET"}},
		{name: "not stored", use: "plain", fields: []string{hour}, requests: []string{"GET Keep: no", "GET", "GET"}},
	}
}

// counter is an origin whose response contains the number of requests so far.
type counter struct {
	cases []sameCase
	times []atomic.Int64
	late  atomic.Bool
}

func newCounter(t *testing.T, cases []sameCase) (o *counter, address string) {
	o = &counter{cases: cases, times: make([]atomic.Int64, len(cases))}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	return o, server.Listener.Addr().String()
}

func (o *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var use string
	var i int
	if _, err := fmt.Sscanf(strings.ReplaceAll(r.URL.Path, "/", " "), "%s %d", &use, &i); err != nil {
		http.Error(w, err.Error(), 599)
		return
	}
	status := 200
	for _, f := range o.cases[i].fields {
		if name, value, _ := strings.Cut(f, ": "); name[0] == ':' {
			_, _ = fmt.Sscan(name[1:], &status)
		} else {
			w.Header().Add(name, value)
		}
	}
	n := o.times[i].Add(1)
	if later := o.cases[i].status; o.late.Load() && later != 0 &&
		(later != 304 || r.Header.Get("If-None-Match") != "") {
		status = later
		w.Header().Del("Cache-Control")
		if later == 304 {
			w.Header().Set("Cache-Control", "max-age=60")
		}
	}
	w.WriteHeader(status)
	if status != 204 && status != 304 {
		fmt.Fprint(w, n)
	}
}

func startNginx(t *testing.T, origin string) string {
	tool, dir := programs.Nginx(t), t.TempDir()
	address := programs.FreeAddress(t)
	var b strings.Builder
	fmt.Fprintf(&b, `daemon off; master_process off; pid DIR/pid; error_log stderr crit; worker_processes 1;
events { worker_connections 64; }
http {
	access_log off; client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
	proxy_cache_path DIR/cache keys_zone=test:1m;
	proxy_cache test; proxy_cache_key $uri; proxy_http_version 1.1; proxy_set_header Connection "";
	proxy_cache_bypass $http_skip; proxy_no_cache $keep_not;
	add_header X-Cache $upstream_cache_status always;
	server { listen %s; set $keep_not ""; if ($http_keep) { set $keep_not 1; }
`, address)
	for name, way := range policies() {
		fmt.Fprintf(&b, "location /%s/ { %s proxy_pass http://%s; }\n", name, way.nginx, origin)
	}
	b.WriteString("}}\n")
	name := filepath.Join(dir, "nginx.conf")
	testkit.Must(t, os.WriteFile(name, []byte(strings.ReplaceAll(b.String(), "DIR", dir)), 0o600))
	programs.Start(t, "tcp", address, tool.Env, tool.Bin, "-p", dir, "-c", name)
	return address
}

func startGateway(t *testing.T, origin string) (*cache.Cache, string) {
	c, err := cache.New(conf.Cache{Name: "test", Dir: t.TempDir()}, nil)
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	g := &gateway{cache: c, rules: make(map[string]*cache.Rules), origin: origin}
	for name, way := range policies() {
		if g.rules[name], err = cache.Compile(way.policy, divertsByField); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return c, server.Listener.Addr().String()
}

func TestCacheBehavesLikeNginx(t *testing.T) {
	cases := sameCases()
	theirOrigin, theirAddress := newCounter(t, cases)
	ourOrigin, ourAddress := newCounter(t, cases)
	theirs := startNginx(t, theirAddress)
	c, ours := startGateway(t, ourAddress)
	round := func(requestsOf func(*sameCase) []string) {
		for i := range cases {
			for _, request := range requestsOf(&cases[i]) {
				path := fmt.Sprintf("/%s/%d", cases[i].use, i)
				want := responseTo(t, theirs, path, request)
				if got := responseTo(t, ours, path, request); got != want {
					t.Errorf("%s: %s\n nginx: %s\n  tare: %s", cases[i].name, request, want, got)
				}
				for cache.Intakes(c) > 0 { // the response to HEAD may end before its body is stored
					time.Sleep(time.Millisecond)
				}
			}
		}
	}
	round(func(c *sameCase) []string { return c.requests })
	time.Sleep(3 * time.Second) // nginx counts in seconds
	theirOrigin.late.Store(true)
	ourOrigin.late.Store(true)
	round(func(c *sameCase) []string { return c.later })
}

// responseTo sends a request, and returns the comparable part of the response.
func responseTo(t *testing.T, address, path, request string) string {
	method, fields, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, "http://"+address+path, nil)
	testkit.Must(t, err)
	r.Header.Set("Accept-Encoding", "identity")
	if fields != "" {
		for name, values := range headerOf(strings.Split(fields, "|")...) {
			r.Header[name] = values
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	testkit.Must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		b = nil
	}
	h := resp.Header
	return fmt.Sprintf("%d %s %q range %q etag %s", resp.StatusCode, h.Get("X-Cache"), b, h.Get("Content-Range"),
		h.Get("Etag"))
}

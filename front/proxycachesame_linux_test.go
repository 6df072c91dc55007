package front_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// cacheCase is a list of requests for which the cache and nginx behave alike, besides those of the
// corpus. Excluded is what RFC 9111 and RFC 5861 require otherwise: Age, Authorization,
// must-revalidate, stale-if-error of a status, ranges without Accept-Ranges, status 416, and an Expires
// in no format of RFC 9110.
type cacheCase struct {
	directives, fields string   // fields of the upstream's response, between ";"
	requests           []string // "FIELD: VALUE;…", where method is no field; by default two without fields
	later              int      // status of responses two seconds later, or 0: then nothing is requested
}

func cacheCases() []cacheCase {
	const seconds, hour, etag = "Cache-Control: max-age=2", "Cache-Control: max-age=3600", `Etag: "v1"`
	const modified, before = "Fri, 31 Dec 1999 00:00:00 GMT", "Thu, 30 Dec 1999 00:00:00 GMT"
	const valid = "proxy_cache_valid 200 1h; proxy_cache_valid 404 2s; proxy_cache_valid 302 0;"
	const revalidate, stale = "proxy_cache_revalidate on;", "proxy_cache_use_stale http_503 http_404;"
	var all []cacheCase
	for _, expires := range []string{
		"Thu, 01 Jan 2099 00:00:00 GMT", "Sunday, 01-Jan-68 00:00:00 GMT", "Thu Jan  1 00:00:00 2099",
		"Thu,  01  Jan 2099 00:00:00 GMT", "Thu, 01 Jan 2099 0:00:00 GMT", "Thu, 1 Jan 2099 00:00:00 GMT",
		"Fri, 01 Jan 2099 00:00:00 GMT", "thu, 01 JAN 2099 00:00:00 gMT",
		"Thu, 01 Jan 2099 00:00 GMT", "4070908800",
	} {
		all = append(all, cacheCase{fields: "Expires: " + expires})
	}
	for _, status := range []int{200, 203, 204, 301, 404, 410, 500, 503} {
		all = append(all, cacheCase{fields: fmt.Sprintf("status: %d;%s", status, hour)})
	}
	return append(all, []cacheCase{
		{fields: seconds, later: 200}, {fields: seconds, later: 503}, {fields: seconds + ";" + etag, later: 200},
		{directives: valid, later: 200}, {directives: valid, fields: "status: 404", later: 404},
		{directives: valid, fields: "status: 302;Location: /"}, {directives: valid, fields: "status: 410"},
		{directives: valid, fields: "Cache-Control: max-age=0"}, {directives: valid, fields: "Expires: 0"},
		{fields: "Cache-Control: max-age=0, s-maxage=60"}, {fields: hour + ";Cache-Control: private"},
		{fields: "Expires: Sat, 01 Jan 2100 00:00:00 gmt"}, {fields: "Expires: Mon Jan  1 00:00:00 2099"},
		{fields: hour + ";Expires: 0"}, {directives: valid, fields: "X-Accel-Expires: 0"},
		{fields: "X-Accel-Expires: @4070908800"}, {fields: "X-Accel-Expires: @1;" + hour, later: 200},
		{directives: stale, fields: "X-Accel-Expires: @1", later: 503}, {fields: "X-Accel-Expires: @0;" + hour},
		{fields: "X-Accel-Expires: @x;" + hour}, {fields: "X-Accel-Expires: -1;" + hour},
		{fields: "X-Accel-Expires: 2;Expires: Thu, 01 Jan 2099 00:00:00 GMT", later: 200}, {fields: "status: 204;" + hour},
		{fields: hour + ";Vary: Accept-Encoding, X", requests: []string{"X: 1", "X: 2", "X: 1", "X: 2", "", "",
			"X: 1;Accept-Encoding: gzip, br", "X: 1;Accept-Encoding: gzip,br"}},
		{fields: hour + ";" + etag, requests: []string{`If-None-Match: "v1"`, `If-None-Match: "v1"`,
			`If-None-Match: W/"v1"`, `If-None-Match: "v2"`, `If-None-Match: "v2", "v1"`, "If-None-Match: *", `If-Match: "v1"`}},
		{fields: etag, requests: []string{`If-None-Match: "v1"`}},
		{fields: hour + ";" + etag + ";Last-Modified: " + modified, requests: []string{"",
			"If-Unmodified-Since: " + before, `If-Match: "v2"`, "If-Modified-Since: " + before, "If-Modified-Since: " + modified,
			`If-None-Match: "v2";If-Modified-Since: ` + modified, `If-None-Match: "v0", "v1"`}},
		{fields: hour, requests: []string{"method: HEAD", "", "method: HEAD", "method: OPTIONS", ""}},
		{fields: hour + ";X-Private: 1", requests: []string{"", "", ""}}, {fields: hour + ";X-Class: personal"},
		{fields: hour + ";X-Class: public"},
		// The lock: a client has its byte before the whole response is in the cache.
		{directives: "proxy_cache_lock on;", fields: hour + ";" + etag + ";Accept-Ranges: bytes", requests: []string{"Range: bytes=0-0", "", "Range: bytes=0-0",
			"Range: bytes=-1", "Range: bytes=900000-", `Range: bytes=2-4;If-None-Match: "v1"`, `Range: bytes=0-0;If-Range: "v1"`, `Range: bytes=0-0;If-Range: "v2"`}},
		{directives: revalidate, fields: seconds + ";" + etag + ";Last-Modified: " + modified, later: 304},
		{directives: revalidate, fields: seconds + ";" + etag, later: 200},
		{directives: stale, fields: seconds, later: 503}, {directives: stale, fields: seconds, later: 404},
		{directives: stale, fields: seconds, later: 502}, {directives: "proxy_cache_lock on;", fields: hour},
		{directives: "proxy_cache_min_uses 2;", fields: hour, requests: []string{"", "", ""}},
		{fields: hour, requests: []string{"", "Skip: 1", "", "Skip: 1;Keep: no", ""}},
		{fields: hour, requests: []string{"Keep: no", "", ""}},
	}...)
}

// startCounted starts an upstream for cases. Its responses have the number of requests so far, and
// are long if they may be requested in ranges. Once late is set, they have the later status.
func startCounted(t *testing.T, cases []cacheCase, late *atomic.Bool) (addr string) {
	counts := make([]atomic.Int64, len(cases))
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		var i int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &i)
		status := 200
		for field := range strings.SplitSeq(cases[i].fields, ";") {
			if name, value, _ := strings.Cut(field, ": "); name == "status" {
				_, _ = fmt.Sscan(value, &status)
			} else if name != "" {
				w.Header().Add(name, value)
			}
		}
		n := counts[i].Add(1)
		if c := cases[i]; late.Load() && (c.later != 304 || r.Header.Get("If-None-Match") != "") && c.later != 200 {
			status = c.later
			w.Header().Set("Cache-Control", map[bool]string{true: "max-age=60"}[status == 304])
		}
		body := fmt.Sprint(n)
		if strings.Contains(cases[i].fields, "Accept-Ranges") {
			body += strings.Repeat("x", 500_000)
		}
		if status == 204 || status == 304 {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func TestCacheBehavesLikeNginx(t *testing.T) {
	cases := cacheCases()
	var late atomic.Bool
	conf := func() string {
		up := startCounted(t, cases, &late)
		text := `proxy_cache z; proxy_cache_key $uri; proxy_http_version 1.1; proxy_cache_bypass $http_skip;
			proxy_no_cache $http_keep $upstream_http_x_private $personal; add_header X-Cache $upstream_cache_status always;`
		for i, c := range cases {
			text += fmt.Sprintf("\nlocation /%d { %s proxy_pass http://%s; }", i, c.directives, up)
		}
		return text
	}
	const outer = "proxy_cache_path DIR/cache keys_zone=z:1m; map $upstream_http_x_class $personal { personal 1; default 0; }"
	theirs, _ := serveNginx(t, outer, conf())
	ours := serveConf(t, outer, conf())
	send := func(i int, request string) {
		t.Helper()
		shown := func(a *testClient) string {
			method, fields := "GET", []string{"Accept-Encoding", "identity"}
			for field := range strings.SplitSeq(request, ";") {
				if name, value, ok := strings.Cut(field, ": "); name == "method" {
					method = value
				} else if ok {
					fields = append(fields, name, value)
				}
			}
			got := a.do(method, fmt.Sprint("/", i), nil, fields...)
			if got.status == http.StatusRequestedRangeNotSatisfiable || got.status == http.StatusPreconditionFailed {
				got.body, got.header["Etag"] = "", nil
			}
			return fmt.Sprintf("%d %s %d bytes %.9q range %q etag %s", got.status, got.header.Get("X-Cache"), len(got.body),
				got.body, got.header.Get("Content-Range"), got.header.Get("Etag"))
		}
		if got, want := shown(ours), shown(theirs); got != want {
			t.Errorf("%+v: %q\n nginx: %s\n  tare: %s", cases[i], request, want, got)
		}
	}
	for i, c := range cases {
		if c.requests == nil {
			c.requests = []string{"", ""}
		}
		for _, request := range c.requests {
			send(i, request)
		}
	}
	time.Sleep(3 * time.Second) // the passing time is the subject; nginx counts in seconds
	late.Store(true)
	for i, c := range cases {
		for range 2 * min(c.later, 1) {
			send(i, "")
		}
	}
}

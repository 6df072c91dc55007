package front_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func quiet() front.Option { return front.LogErrors(log.New(io.Discard, "", 0)) }

// inFakeTime serves in fake time, without a network.
func inFakeTime(t *testing.T, c conf.Config, h http.HandlerFunc) *front.Handler {
	t.Helper()
	return testkit.Value(front.New(c, front.Bind("app", h), quiet()))(t)
}

func serveInMemory(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w, r := newRecorder(), httptest.NewRequest("GET", "http://front.test"+path, nil)
	h.ServeHTTP(w, r.WithContext(ctx))
	return w
}

// Requests within the burst are delayed, but no longer than their client waits.
func TestBurstIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := confFront(t, "limit_req_zone $remote_addr zone=z:1m rate=2r/s;", `limit_req zone=z burst=5 delay=1;
			location / { proxy_pass http://app; }`, handlers{"app": shows})
		start, ended := time.Now(), make(chan time.Duration, 5)
		for range 5 { // the first, one at once, and three delayed
			go func() {
				serveInMemory(t.Context(), f, "/")
				ended <- time.Since(start)
			}()
		}
		for _, want := range []time.Duration{0, 0, 500, 1000, 1500} {
			testkit.Equal(t, <-ended, want*time.Millisecond, "response after")
		}
		start = time.Now()
		_ = serveInMemory(t.Context(), f, "/")
		_ = serveInMemory(t.Context(), f, "/")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := serveInMemory(ctx, f, "/gone")
		testkit.Equal(t, w.Code+w.Body.Len(), 0, "the status, where the client has left")
	})
}

// A rejection with 401 is delayed, but not longer than its client waits.
func TestUnauthorizedRequestIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := confFront(t, "", `location / { auth_delay 2s; auth_request /auth; empty_gif; }
			location /auth { return 401; }`, nil)
		start := time.Now()
		testkit.Equal(t, serveInMemory(t.Context(), f, "/").Code, 401)
		testkit.Equal(t, time.Since(start), 2*time.Second, "the response after")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		testkit.Equal(t, serveInMemory(ctx, f, "/").Code, 0, "the client has left")
		testkit.Equal(t, time.Since(start), time.Second, "the end after")
	})
}

// limit_conn bounds concurrent requests by key, and every end of a request makes room.
func TestConnectionsAreLimitedByKey(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	app := serve(t, func(w http.ResponseWriter, r *http.Request) {
		inside <- true
		<-leave
		if r.FormValue("panic") != "" {
			panic(http.ErrAbortHandler)
		}
	})
	theirs, us := besideNginx(t, "limit_conn_zone $arg_k zone=n:1m; limit_conn_zone $arg_all zone=all:1m;",
		"limit_conn n 2; limit_conn all 3; limit_conn_status 429; "+passTo(app))
	for _, a := range []*testClient{theirs, us} {
		ended := make(chan bool, 4)
		start := func(path string) {
			go func() {
				_, _ = a.attempt("GET", path, nil)
				ended <- true
			}()
			<-inside
		}
		start("/?k=1&all=1")
		start("/?k=1&all=1&panic=1")
		a.get("/?k=1&all=1").is(t, 429) // a third one
		start("/?k=2&all=1")
		a.get("/?k=3&all=1").is(t, 429) // a fourth one of all
		start("/")                      // it has no key
		for range 4 {
			leave <- true
		}
		for range 4 {
			<-ended
		}
		for range 3 { // and none is leaked
			start("/?k=3&all=1")
			leave <- true
			<-ended
		}
	}
}

// A body that is too long gets 413, whatever a bound handler does with the error. Package corpus
// compares limits with nginx.
func TestTooLongBodyGets413(t *testing.T) {
	us := frontOf(t, conf.Settings{MaxBody: 100}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "bad body", http.StatusBadRequest)
		}
	})
	for n, want := range map[int]int{100: 200, 101: 413, 1 << 20: 413} {
		body := strings.Repeat("x", n)
		for _, r := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
			us.do("POST", "/", r).is(t, want)
		}
	}
}

// A request with a key that is too long is not limited, and both kinds of limits log it.
func TestTooLongLimitKeysAreNotLimited(t *testing.T) {
	var output bytes.Buffer
	zones := strings.ReplaceAll("limit_req_zone KEY zone=requests:1m rate=1r/m; limit_conn_zone KEY zone=conns:1m;", "KEY",
		strings.Repeat("$arg_a", 10))
	h := confFront(t, zones, "location / { empty_gif; limit_req zone=requests; limit_conn conns 1; }", nil,
		front.LogErrors(log.New(&output, "", 0)))
	for range 2 {
		get(t, h, "/?a="+strings.Repeat("x", 7000)).is(t, 200)
	}
	for _, zone := range []string{"requests", "conns"} {
		want := fmt.Sprintf("the key of the zone %q is too long: 70000 bytes", zone)
		testkit.Equal(t, strings.Count(output.String(), want), 2, "lines with", want)
	}
}

// many are letters and another byte, for which a regular expression that begins with costly exceeds
// the limits of a match: of its memory, which takes less time than to exceed that of its steps.
func many() string { return strings.Repeat("a", 3000) + "!" }

func costly() string { return `(?:\w` + strings.Repeat("()", 60) + ")*" }

// A regular expression that exceeds the limits of a match fails the request, as do regular
// expressions that exceed the request's limit together. Then no other one is tried, and one line is
// logged.
func TestRegexesShareABudget(t *testing.T) {
	path := "/" + many()
	forty := func(format string) (all string) {
		for i := range 40 {
			all += fmt.Sprintf(format, fmt.Sprintf(`^/(?=(?:%s-|(\w+\s?)*)%d$)`, costly(), i))
		}
		return all
	}
	outer := "map $uri $m { volatile; default no; " + forty("~%s yes; ") + "}"
	for name, server := range map[string]string{
		"locations": forty("location ~ %s { return 200 by; } ") + `location / { return 200 "passed by"; }`,
		"map":       "location / { return 200 $m$m; }",
		"if":        "location / { " + forty("if ($uri ~ %s) { return 403; } ") + "return 200 by; }",
		"rewrite":   "location / { " + forty("rewrite %s /other; ") + "return 200 by; }",
		"request": `location / { auth_request /ask; empty_gif; }
			location = /ask { if ($request_uri ~ ^/` + costly() + `$) { return 403; } return 204; }`,
		"page": `location / { error_page 500 =200 /page; if ($uri ~ ^/` + costly() + `$) { } return 200 by; }
			location = /page { return 200 page; }`,
		"referers": `location / { valid_referers ~a.b/` + costly() + `$; if ($invalid_referer) { return 200 by; }
			return 200 by; }`,
	} {
		var lines strings.Builder
		h := testkit.Value(front.New(parseConf(t, outer, server), front.LogErrors(log.New(&lines, "", 0))))(t)
		got := get(t, h, path, "Referer", "http://a.b"+path)
		testkit.Equal(t, got.status, http.StatusInternalServerError, name, got.body)
		testkit.Equal(t, strings.Count(lines.String(), "needs too many steps"), 1, name, lines.String())
		if name == "if" { // 20 million steps; other directives differ only in how they use a match
			got = get(t, h, "/"+strings.Repeat("a", 17)+"!")
			testkit.Equal(t, got.status, 500, name, "together")
			testkit.Equal(t, strings.Count(lines.String(), "need too many steps together"), 1, name, lines.String())
		}
		testkit.Check(t, h.Close())
	}
}

// A map whose regular expression exceeds its limits does not grant access, whatever uses its value:
// its default might.
func TestRegexTimeoutInMapDeniesAccess(t *testing.T) {
	dir := site(t, "public/x")
	testkit.WriteFile(t, filepath.Join(dir, "passwords"), "a:{PLAIN}b")
	pattern := "^" + costly() + "$"
	outer := "map $http_x $public { default public; ~" + pattern + " secret; } map $http_x $off { default off; ~" +
		pattern + " secret; } proxy_cache_path DIR/c keys_zone=c:1m; limit_req_zone $public zone=z:1m rate=1000r/s;"
	const password = "root SITE/public; auth_basic $off; auth_basic_user_file SITE/passwords;"
	for name, location := range map[string]string{
		"return":     "return 200 $public;",
		"redirect":   "return 302 /$public;",
		"rewrite":    "rewrite ^ /other/$public redirect;",
		"inner":      "rewrite ^ /other/$public last;",
		"if":         "if ($public != secret) { return 200 said; }",
		"not":        "if ($http_x !~ " + pattern + ") { return 403; }",
		"set":        "if ($uri) { set $a $public; return 204; }",
		"password":   password,
		"limit":      "root SITE/public; limit_req zone=z;",
		"picture":    password + " empty_gif;",
		"cache key":  "proxy_pass http://127.0.0.1:1; proxy_cache c; proxy_cache_key $public;",
		"root":       "root SITE/$public;",
		"index":      "root SITE; index $public /x;",
		"tries":      "root SITE/public; try_files /none$public /x;",
		"last":       "root SITE/public; try_files /none /$public;",
		"subrequest": "auth_request /other/; auth_request_set $a $public; empty_gif;",
	} {
		path := "/x"
		if name == "index" {
			path = "/public/"
		}
		h := confFront(t, outer, "location / { "+strings.ReplaceAll(location, "SITE", dir)+
			" } location /other/ { return 200 said; }", nil)
		if got := get(t, h, path, "X", many()); got.status != http.StatusInternalServerError ||
			strings.Contains(got.body, "said") || strings.Count(got.body, "<html>") != 1 {
			t.Errorf("%s: %d %q", name, got.status, got.body)
		}
	}
}

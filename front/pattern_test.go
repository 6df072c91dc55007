package front_test

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// A regular expression that exceeds the limit of steps fails the request, as do regular expressions
// that exceed the request's limit together. Then no other one is tried, and one line is logged.
func TestRegexesShareABudget(t *testing.T) {
	testkit.Long(t, "it waits for budgets")
	path := "/" + strings.Repeat("a", 3000) + "!"
	forty := func(format string) (all string) {
		for i := range 40 {
			all += fmt.Sprintf(format, fmt.Sprintf(`^/(?=(\w+\s?)*%d$)`, i))
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
			location = /ask { if ($request_uri ~ ^/(?=(\w+\s?)*$)) { return 403; } return 204; }`,
		"page": `location / { error_page 500 =200 /page; if ($uri ~ ^/(?=(\w+\s?)*$)) { } return 200 by; }
			location = /page { return 200 page; }`,
		"referers": `location / { valid_referers ~a.b/(?=(\w+\s?)*$); if ($invalid_referer) { return 200 by; }
			return 200 by; }`,
	} {
		var lines strings.Builder
		h := testkit.Value(front.New(parseConf(t, outer, server), front.LogErrors(log.New(&lines, "", 0))))(t)
		got := get(t, h, path, "Referer", "http://a.b"+path)
		testkit.Equal(t, got.status, http.StatusInternalServerError, name, got.body)
		if n := strings.Count(lines.String(), "needs too many steps"); n != 1 {
			t.Errorf("%s: %d lines: %s", name, n, lines.String())
		}
		if name == "locations" || name == "if" || name == "rewrite" {
			got = get(t, h, "/"+strings.Repeat("a", 17)+"!")
			if n := strings.Count(lines.String(), "need too many steps together"); n != 1 || got.status != 500 {
				t.Errorf("%s, together: %d, %d lines: %s", name, got.status, n, lines.String())
			}
		}
		testkit.Check(t, h.Close())
	}
}

// A map whose regular expression exceeds its steps does not grant access, whatever uses its value:
// its default might.
func TestRegexTimeoutInMapDeniesAccess(t *testing.T) {
	testkit.Long(t, "it waits for budgets")
	dir := site(t, "public/x")
	must(t, os.WriteFile(filepath.Join(dir, "passwords"), []byte("a:{PLAIN}b"), 0o600))
	const pattern = `^(?=(\w+\s?)*$)`
	const outer = "map $arg_x $public { default public; ~" + pattern + " secret; } map $arg_x $off { default off; ~" +
		pattern + " secret; } proxy_cache_path DIR/c keys_zone=c:1m; limit_req_zone $public zone=z:1m rate=1000r/s;"
	const password = "root SITE/public; auth_basic $off; auth_basic_user_file SITE/passwords;"
	for name, location := range map[string]string{
		"return":    "return 200 $public;",
		"redirect":  "return 302 /$public;",
		"rewrite":   "rewrite ^ /other/$public redirect;",
		"inner":     "rewrite ^ /other/$public last;",
		"if":        "if ($public != secret) { return 200 said; }",
		"not":       "if ($arg_x !~ " + pattern + ") { return 403; }",
		"set":       "if ($uri) { set $a $public; return 204; }",
		"password":  password,
		"limit":     "root SITE/public; limit_req zone=z;",
		"picture":   password + " empty_gif;",
		"cache key": "proxy_pass http://127.0.0.1:1; proxy_cache c; proxy_cache_key $public;",
		"root":      "root SITE/$public;",
		"index":     "root SITE; index $public /x;",
		"tries":     "root SITE/public; try_files /none$public /x;",
		"last":      "root SITE/public; try_files /none /$public;",
	} {
		path := "/x"
		if name == "index" {
			path = "/public/"
		}
		server := "location / { " + strings.ReplaceAll(location, "SITE", dir) + " } location /other/ { return 200 said; }"
		h := newFront(t, parseConf(t, outer, server))
		if got := get(t, h, path+"?x="+strings.Repeat("a", 60)+"!"); got.status != http.StatusInternalServerError ||
			strings.Contains(got.body, "said") || strings.Count(got.body, "<html>") != 1 {
			t.Errorf("%s: %d %q", name, got.status, got.body)
		}
	}
}

package front_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// stickyServers are two servers, and an upstream of them with more directives. The response of a
// server is its name.
func stickyServers(t *testing.T, directives string) string {
	t.Helper()
	text := "upstream app { " + directives
	for _, name := range []string{"a", "b"} {
		addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("begin") {
				http.SetCookie(w, &http.Cookie{Name: "session", Value: "of-" + name})
			}
			fmt.Fprint(w, name)
		})
		text += fmt.Sprintf(" server %s route=%s;", addr, name)
	}
	return text + " }"
}

func TestStickyCookieBindsClient(t *testing.T) {
	const location = "location / { proxy_pass http://app; }"
	a := serveConf(t, stickyServers(t, "sticky cookie srv domain=.example.com path=/x httponly secure samesite=strict;"),
		location)
	for range 4 {
		first := a.get("/")
		cookie := first.header.Get("Set-Cookie")
		if want := "srv=" + first.body + "; Domain=.example.com; Path=/x; HttpOnly; Secure; SameSite=Strict"; cookie != want {
			t.Fatalf("%q, want %q", cookie, want)
		}
		for range 3 {
			if again := a.get("/", "Cookie", "x=y; srv="+first.body); again.body != first.body ||
				again.header.Get("Set-Cookie") != "" {
				t.Errorf("%s after %s, and %q", again.body, first.body, again.header)
			}
		}
	}
	if got := a.get("/", "Cookie", "srv=evil"); !strings.HasPrefix(got.header.Get("Set-Cookie"), "srv="+got.body) {
		t.Errorf("after an unknown route: %q", got.header)
	}
	expiring := serveConf(t, stickyServers(t, "sticky cookie srv expires=1h;"), location).get("/", "Cookie", "srv=a")
	if cookie, err := http.ParseSetCookie(expiring.header.Get("Set-Cookie")); err != nil || cookie.MaxAge != 3600 ||
		cookie.Value != "a" || cookie.Expires.IsZero() {
		t.Errorf("%q %v", expiring.header, err)
	}
}

func TestStickyRouteIsFromVariables(t *testing.T) {
	a := serveConf(t, stickyServers(t, "sticky route $cookie_route $arg_route;"),
		"location / { proxy_pass http://app; }")
	for range 3 {
		for want, request := range map[string][]string{"a": {"/?route=b", "Cookie", "route=a"}, "b": {"/?route=b"}} {
			a.get(request[0], request[1:]...).is(t, 200, want)
		}
	}
}

// With a cache, a client is bound by responses of its own only, which are not stored.
func TestCachedResponseBindsNoClient(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", r.URL.Query().Get("control"))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
	})
	a := serveConf(t, fmt.Sprintf(`proxy_cache_path %s keys_zone=c:1m; upstream app { sticky cookie srv;
		server %s route=one; server 127.0.0.1:1 route=two backup; }`, t.TempDir(), addr),
		`location / { proxy_cache c; proxy_ignore_headers Set-Cookie; proxy_cache_key $args;
		proxy_pass http://app; }`)
	for range 2 {
		cookies := func(control string) string {
			return strings.Join(a.get("/?control=" + control).header["Set-Cookie"], " ")
		}
		if got, want := cookies("no-store"), "srv=one session=s"; got != want {
			t.Errorf("not stored: %q, want %q", got, want)
		}
		if got := cookies("max-age=60"); got != "session=s" {
			t.Errorf("stored: %q", got)
		}
	}
}

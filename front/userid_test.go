package front_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// identified serves with directives about IDs.
func identified(t *testing.T, directives string) *testClient {
	t.Helper()
	return serveConf(t, "", "add_header X-Got $uid_got; add_header X-Set $uid_set; location / { empty_gif; } "+directives)
}

// Each new client has an ID of its own, which is found in its next request.
func TestEachClientHasAnID(t *testing.T) {
	for _, mode := range []string{"on", "v1"} {
		us := identified(t, "userid "+mode+";")
		seen := make(map[string]bool)
		for range 300 {
			got := us.get("/")
			cookie, attributes, _ := strings.Cut(got.header.Get("Set-Cookie"), "; ")
			id := strings.TrimPrefix(cookie, "uid=")
			if b, err := base64.StdEncoding.DecodeString(id); err != nil || len(b) != 16 || attributes != "path=/" ||
				seen[id] || seen[got.header.Get("X-Set")] || got.header.Get("X-Got") != "" {
				t.Fatalf("%s: %q", mode, got.header)
			}
			seen[id], seen[got.header.Get("X-Set")] = true, true
			again := us.get("/", "Cookie", "a=b; "+cookie)
			if again.header["Set-Cookie"] != nil || again.header.Get("X-Got") != got.header.Get("X-Set") {
				t.Fatalf("%s, in the next request: %q, after %q", mode, again.header, got.header)
			}
		}
	}
}

// The attributes are in nginx's order.
func TestAttributesOfUserID(t *testing.T) {
	for want, directives := range map[string]string{
		`^n=.{22}==; domain=\.x; path=/p; secure; httponly; samesite=lax$`: "userid on; userid_name n; userid_path /p; " +
			"userid_domain .x; userid_flags secure httponly samesite=lax;",
		`^uid=.{22}t=; expires=Thu, 31-Dec-37 23:55:55 GMT; path=/$`:                "userid on; userid_expires max; userid_mark t;",
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT; path=/$`:  "userid on; userid_expires 1h;",
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT; path=/$`: "userid on; userid_expires 36600d;",
		`^uid=AAD/`: "userid on; userid_service 65534;",
		`^$`:        "userid log;",
	} {
		us := identified(t, directives+" userid_p3p x;")
		got := us.get("/").header
		if !regexp.MustCompile(want).MatchString(got.Get("Set-Cookie")) || (got.Get("P3P") == "x") != (want != "^$") {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

package front_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// identified serves a handler with a userid.
func identified(t *testing.T, change func(u *conf.UserID)) *testClient {
	t.Helper()
	s := conf.Settings{
		UserID: new(conf.UserID),
		Header: []conf.AddHeader{{Name: "X-Got", Value: "$uid_got"}, {Name: "X-Set", Value: "$uid_set"}},
	}
	change(s.UserID)
	return frontOf(t, s, func(http.ResponseWriter, *http.Request) {})
}

// Each new client has an ID of its own, which is found in its next request.
func TestEachClientHasAnID(t *testing.T) {
	for _, mode := range []string{"on", "v1"} {
		us := identified(t, func(u *conf.UserID) { u.Mode = mode })
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
	service := uint32(65534)
	for want, change := range map[string]func(u *conf.UserID){
		`^n=.{22}==; domain=\.x; path=/p; secure; httponly; samesite=lax$`: func(u *conf.UserID) {
			u.Name, u.Path, u.Domain = "n", "/p", ".x"
			u.Flags = []string{"secure", "httponly", "samesite=lax"}
		},
		`^uid=.{22}t=; expires=Thu, 31-Dec-37 23:55:55 GMT; path=/$`: func(u *conf.UserID) {
			u.Expires, u.Mark = -1, "t"
		},
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT; path=/$`: func(u *conf.UserID) {
			u.Expires = time.Hour
		},
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT; path=/$`: func(u *conf.UserID) {
			u.Expires = 100 * 366 * 24 * time.Hour
		},
		`^uid=AAD/`: func(u *conf.UserID) { u.Service = &service },
		`^$`:        func(u *conf.UserID) { u.Mode = "log" },
	} {
		us := identified(t, func(u *conf.UserID) {
			u.Mode, u.P3P = "on", "x"
			change(u)
		})
		got := us.get("/").header
		if !regexp.MustCompile(want).MatchString(got.Get("Set-Cookie")) || (got.Get("P3P") == "x") != (want != "^$") {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

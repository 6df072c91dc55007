package front_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// identified serves a handler with a userid.
func identified(t *testing.T, change func(s *conf.Settings)) *testClient {
	t.Helper()
	s := conf.Settings{Header: []conf.AddHeader{{Name: "X-Got", Value: "$uid_got"}, {Name: "X-Set", Value: "$uid_set"}}}
	change(&s)
	return frontOf(t, s, func(http.ResponseWriter, *http.Request) {})
}

// Each new client has an ID of its own, which is found in its next request.
func TestEachClientHasAnID(t *testing.T) {
	for _, mode := range []string{"on", "v1"} {
		us := identified(t, func(s *conf.Settings) { s.UserID.Mode = mode })
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
	for want, change := range map[string]func(s *conf.Settings){
		`^n=.{22}==; domain=\.x; path=/p; secure; httponly; samesite=lax$`: func(s *conf.Settings) {
			s.UserID.Name, s.UserID.Path, s.UserID.Domain = "n", "/p", ".x"
			s.UserID.Flags = []string{"secure", "httponly", "samesite=lax"}
		},
		`^uid=.{22}t=; expires=Thu, 31-Dec-37 23:55:55 GMT; path=/$`: func(s *conf.Settings) {
			s.UserID.Expires, s.UserID.Mark = -1, "t"
		},
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT; path=/$`: func(s *conf.Settings) {
			s.UserID.Expires = time.Hour
		},
		`^uid=.{22}==; expires=\w{3}, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT; path=/$`: func(s *conf.Settings) {
			s.UserID.Expires = 100 * 366 * 24 * time.Hour
		},
		`^uid=AAD/`: func(s *conf.Settings) { s.UserID.Service = &service },
		`^$`:        func(s *conf.Settings) { s.UserID.Mode = "log" },
	} {
		us := identified(t, func(s *conf.Settings) {
			s.UserID.Mode, s.UserID.P3P = "on", "x"
			change(s)
		})
		got := us.get("/").header
		if !regexp.MustCompile(want).MatchString(got.Get("Set-Cookie")) || (got.Get("P3P") == "x") != (want != "^$") {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

// An ID is sent again if its mark is missing, and replaced if the application wants it.
func TestMarkAndResetOfUserID(t *testing.T) {
	const id = "fwAAAWZkZWYBAgMEAgMDAw"
	marked := identified(t, func(s *conf.Settings) { s.UserID.Mode, s.UserID.Mark = "on", "t" })
	for cookie, want := range map[string]string{id + "==": id + "t=", id: id + "t=", id + "t=": ""} {
		set, _, _ := strings.Cut(marked.get("/", "Cookie", "uid="+cookie).header.Get("Set-Cookie"), ";")
		if strings.TrimPrefix(set, "uid=") != want {
			t.Errorf("%s: %q, want %q", cookie, set, want)
		}
	}
	s := conf.Settings{}
	s.UserID.Mode = "on"
	l := app(s)
	l.Steps = []conf.Step{conf.Set{Name: "uid_reset", Value: "$arg_reset"}}
	reset := serveHandler(t, newFront(t, oneHost(l), front.Bind("app", http.NotFoundHandler()), quiet()))
	for arg, replaced := range map[string]bool{"": false, "0": false, "1": true, "log": true} {
		set := reset.get("/?reset="+arg, "Cookie", "uid="+id+"==").header.Get("Set-Cookie")
		if (set != "") != replaced || strings.Contains(set, id) {
			t.Errorf("$uid_reset %q: %q", arg, set)
		}
	}
}

// Invalid settings are errors.
func TestInvalidUserIDIsRejected(t *testing.T) {
	for _, change := range []func(s *conf.Settings){
		func(s *conf.Settings) { s.UserID.Mode = "yes" }, func(s *conf.Settings) { s.UserID.Name = "a b" },
		func(s *conf.Settings) { s.UserID.Mark = "ab" }, func(s *conf.Settings) { s.UserID.Path = "/a; b" },
		func(s *conf.Settings) { s.UserID.P3P = "a\n" },
	} {
		s := conf.Settings{}
		s.UserID.Mode = "on"
		change(&s)
		if h, err := front.New(oneHost(conf.Location{Path: "/", Settings: s})); err == nil {
			_ = h.Close()
			t.Errorf("%+v is accepted", s.UserID)
		}
	}
}

package front

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Nothing outside of the directory of an alias or a root is served, whatever the path and its
// variables.
func TestNothingOutsideIsServed(t *testing.T) {
	top := site(t, "public/x.txt", "public-secret", "secret", "public/d/y.txt", "w/secret")
	dir := conf.Text(top + "/public")
	at := func(path string, f conf.Files) conf.Location {
		return conf.Location{Path: path, Settings: &conf.Settings{Files: f}}
	}
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{
		at("/i", conf.Files{Alias: dir + "/"}), at("/j", conf.Files{Alias: dir}), at("/k/",
			conf.Files{Alias: dir + "/"}),
		at("/l/", conf.Files{Alias: dir}),
		at("/m/", conf.Files{Alias: dir + "/$arg_d/"}), at("/r/", conf.Files{Root: dir + "/$arg_d"}),
		at("/v/", conf.Files{Root: "$arg_d"}), at("/", conf.Files{Root: dir}),
		{Match: "~", Path: "^/u/(.*)$", Settings: &conf.Settings{Files: conf.Files{Alias: dir + "/$1"}}},
		{Path: "/t/", TryFiles: []conf.Text{"$arg_f", "=404"}, Settings: &conf.Settings{Files: conf.Files{Root: dir}}},
		{Path: "/w/", Steps: []conf.Step{conf.Rewrite{Pattern: "^", To: "/$arg_p", Flag: "break"}},
			Settings: &conf.Settings{Files: conf.Files{Root: dir}}},
	}}}})
	for _, target := range []string{
		"/i../secret", "/i..%2fsecret", "/i%2e%2e/secret", "/j../secret", "/j-secret", "/k/../secret",
		"/k/%2e%2e/secret", "/l-secret", "/l/..%2f..%2fsecret", "/m/secret?d=..", "/m/x?d=../..",
		"/r/x?d=/../../", "/r/secret?d=..",
		"/u/../secret", "/u/%2e%2e/secret", "/t/x?f=/../secret", "/t/x?f=../secret", "/w/x?p=../secret",
		"/w/x?p=../../w/secret", "/..\\secret", "/i/..%5csecret", "/%5c..%5csecret", "/x.txt%00", "/v/../secret",
	} {
		got := get(t, h, target)
		if got.status < 400 && !strings.HasPrefix(got.location, "http") || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %d %q %q", target, got.status, got.location, got.body)
		}
	}
	for target, want := range map[string]string{
		"/i/x.txt": "public/x.txt", "/ix.txt": "public/x.txt", "/j/x.txt": "public/x.txt", "/k/x.txt": "public/x.txt",
		"/l/x.txt": "", "/m/y.txt?d=d": "public/d/y.txt", "/u/d/y.txt": "public/d/y.txt",
		"/t/?f=/x.txt": "public/x.txt", "/w/?p=x.txt": "public/x.txt",
	} {
		if got := get(t, h, target); want != "" && got.body != want || want == "" && got.status != 404 {
			t.Errorf("%s: %d %q", target, got.status, got.body)
		}
	}
}

func TestFileOptionsApply(t *testing.T) {
	dir := site(t, "x.txt", "x.txt.gz", "y.css", "d/z", "real")
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(path string, f conf.Files) conf.Location {
		f.Alias = conf.Text(dir + "/")
		return conf.Location{Path: path, Settings: &conf.Settings{Files: f}}
	}
	locations := []conf.Location{
		at("/gz/", conf.Files{Precompressed: []string{"gzip"}}),
		at("/plain/", conf.Files{NoEtag: true, Types: map[string]string{"css": "text/x"}, DefaultType: "a/b",
			Charset: "koi8-r", CharsetTypes: []string{"text/x"}}), at("/list/", conf.Files{Listing: true}),
	}
	if runtime.GOOS == "linux" {
		locations = append(locations, at("/links/", conf.Files{}), at("/nolinks/",
			conf.Files{DisableSymlinks: "on"}))
	}
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: locations}}})
	check := func(target string, status int, body, name, value string, fields ...string) {
		t.Helper()
		got := get(t, h, target, fields...)
		if got.status != status || !strings.Contains(got.body, body) || got.header.Get(name) != value {
			t.Errorf("%s: %d %q, %s %q, want %d %q %q", target, got.status, got.body, name, got.header.Get(name),
				status, body, value)
		}
	}
	check("/gz/x.txt", 200, "x.txt.gz", "Content-Encoding", "gzip", "Accept-Encoding", "gzip")
	check("/gz/x.txt", 200, "x.txt", "Content-Encoding", "")
	check("/plain/x.txt", 200, "x.txt", "Etag", "", "Accept-Encoding", "gzip")
	check("/plain/x.txt", 200, "x.txt", "Content-Type", "a/b")
	check("/plain/y.css", 200, "y.css", "Content-Type", "text/x; charset=koi8-r")
	check("/list/", 200, "y.css", "Content-Type", "text/html")
	check("/list/d", 301, "", "Location", "http://example.com/list/d/")
	check("/gz/", 403, "", "Location", "")
	if runtime.GOOS == "linux" {
		check("/links/link", 200, "real", "Etag", get(t, h, "/links/real").header.Get("Etag"))
		check("/nolinks/link", 403, "", "Etag", "")
		check("/nolinks/real", 200, "real", "Location", "")
	}
}

// Variables may name any number of directories.
func TestDirectoryMayHaveVariables(t *testing.T) {
	top := t.TempDir()
	for i := range 64 {
		path := filepath.Join(top, fmt.Sprint(i), "x")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fmt.Sprint(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := newFront(t, conf.Config{
		Maps: []conf.Map{{Name: "dir", Source: "$arg_d", Cases: []conf.Case{{From: "~^(\\d+)$",
			To: conf.Text(top + "/$1")}}}},
		Hosts: []conf.Host{{Defaults: &conf.Settings{Files: conf.Files{Root: "$dir"}}}},
	})
	for range 2 {
		for i := range 64 {
			if got := get(t, h, fmt.Sprintf("/x?d=%d", i)); got.body != fmt.Sprint(i) {
				t.Fatalf("%d: %d %q", i, got.status, got.body)
			}
		}
	}
	for _, d := range []string{"x", "", "99999"} {
		if got := get(t, h, "/x?d="+d); got.status != http.StatusNotFound {
			t.Errorf("%q: %d", d, got.status)
		}
	}
}

// A directory may be created later.
func TestDirectoryMayAppearLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	h := newFront(t,
		conf.Config{Hosts: []conf.Host{{Defaults: &conf.Settings{Files: conf.Files{Root: conf.Text(dir)}}}}})
	if got := get(t, h, "/x"); got.status != http.StatusNotFound {
		t.Errorf("%d", got.status)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := get(t, h, "/x"); got.body != "here" {
		t.Errorf("%d %q", got.status, got.body)
	}
}

// An error page has the error's status, whatever serves it, and ranges do not apply.
func TestErrorPageHasErrorsStatus(t *testing.T) {
	dir := site(t, "page.html", "empty.html")
	large := strings.Repeat("large", 200_000) // sent by sendfile
	if err := os.WriteFile(filepath.Join(dir, "large.html"), []byte(large), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty.html"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := newFront(t, conf.Config{Hosts: []conf.Host{{
		Defaults: &conf.Settings{Files: conf.Files{Root: conf.Text(dir)}},
		Locations: []conf.Location{
			{Path: "/404/", Settings: &conf.Settings{ErrorPages: []conf.ErrorPage{{Statuses: []int{404},
				Target: "$arg_p"}},
				Files: conf.Files{Root: conf.Text(dir)}}},
			{Path: "/app", Proxy: &conf.Proxy{To: "app"}},
		},
	}}}, Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-App", "yes")
		if r.Method == http.MethodHead {
			return
		}
		w.WriteHeader(http.StatusTeapot)
		_ = http.NewResponseController(w).Flush()
		_, _ = fmt.Fprint(w, "app ", r.Method)
	})))
	for _, test := range []struct{ line, body string }{
		{"/404/x?p=/page.html", "page.html"}, {"HEAD /404/x?p=/page.html", ""}, {"/404/x?p=/empty.html", ""},
		{"/404/x?p=/large.html", large}, {"/404/x?p=/app", "app GET"}, {"HEAD /404/x?p=/app", ""},
	} {
		got := get(t, h, test.line, "Range", "bytes=0-1", "If-None-Match", "*")
		if got.status != 404 || got.body != test.body {
			t.Errorf("%s: %d %.40q", test.line, got.status, got.body)
		}
	}
}

// Variables with clients' data cannot end the line of a redirect.
func TestRedirectCannotInject(t *testing.T) {
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{
		{Path: "/a", Steps: []conf.Step{conf.Return{Status: 301, Text: "https://x.example$uri"}}},
		{Path: "/b", Steps: []conf.Step{conf.Return{Status: 302, Text: "$uri"}}},
		{Path: "/c", Steps: []conf.Step{conf.Rewrite{Pattern: "(?s)^/c(.*)$", To: "https://x.example/$1",
			Flag: "redirect"}}},
		{Path: "/d", Steps: []conf.Step{conf.Return{Status: 404}},
			Settings: &conf.Settings{ErrorPages: []conf.ErrorPage{{Statuses: []int{404}, Target: "https://x.example$uri"}}}},
	}}}})
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		got := get(t, h, path+"%0d%0aSet-Cookie:%20x=1%0d%0a%0d%0a")
		if strings.ContainsAny(got.location, "\r\n") || got.location == "" ||
			!strings.Contains(got.location, "%0D%0A") {
			t.Errorf("%s: %d %q", path, got.status, got.location)
		}
	}
}

// The charset is added to all kinds of responses without one.
func TestCharsetIsAdded(t *testing.T) {
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{{
		Path: "/", Proxy: &conf.Proxy{To: "app"}, Settings: &conf.Settings{Files: conf.Files{Charset: "utf-8"}},
	}}}}}, Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("t"))
		if e := r.URL.Query().Get("e"); e != "" {
			w.Header().Set("Content-Encoding", e)
		}
	})))
	for query, want := range map[string]string{
		"t=text/html": "text/html; charset=utf-8", "t=Text/HTML": "Text/HTML; charset=utf-8",
		"t=text/html;charset=x": "text/html;charset=x", "t=image/png": "image/png",
		"t=text/html&e=gzip": "text/html; charset=utf-8",
	} {
		if got := get(t, h, "/?"+strings.ReplaceAll(query, ";", "%3B")).header.Get("Content-Type"); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

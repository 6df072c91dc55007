package front_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
		if got.status < 400 && !strings.HasPrefix(got.header.Get("Location"), "http") || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %d %q %q", target, got.status, got.header.Get("Location"), got.body)
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

// Variables may name any number of directories.
func TestDirectoryMayHaveVariables(t *testing.T) {
	top := t.TempDir()
	for i := range 64 {
		path := filepath.Join(top, fmt.Sprint(i), "x")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(fmt.Sprint(i)), 0o644))
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

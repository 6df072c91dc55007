package front_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// releases returns a directory with two releases of a site, and the link "current" to the first.
func releases(t *testing.T) (dir string, deploy func(release string)) {
	t.Helper()
	dir = site(t, "r1/x", "r1/index.html", "r1/only1", "r1/list/1", "r1/gz", "r1/gz.gz", "r1/err.html", "r2/x",
		"r2/index.html", "r2/only2", "r2/list/2", "r2/gz", "r2/gz.gz", "r2/err.html")
	for _, r := range []string{"r1", "r2"} {
		must(t, os.WriteFile(filepath.Join(dir, r, "large"), []byte(strings.Repeat(r, 300_000)), 0o644))
	}
	deploy = func(release string) {
		t.Helper()
		link := filepath.Join(dir, "current")
		if err := os.Symlink(release, link+".new"); err != nil {
			t.Skip(err)
		}
		must(t, os.Rename(link+".new", link))
	}
	deploy("r1")
	return dir, deploy
}

// A link's current target is served, whatever was served before, and whichever way a file is found.
func TestCurrentLinkTargetIsServed(t *testing.T) {
	dir, deploy := releases(t)
	at := func(path string, f conf.Files) conf.Location {
		return conf.Location{Path: path, Settings: &conf.Settings{Files: f}}
	}
	current := conf.Text(dir + "/current")
	missing := at("/error/", conf.Files{Root: current})
	missing.Settings.ErrorPages = []conf.ErrorPage{{Statuses: []int{404}, Target: "/err.html"}}
	tried := at("/tried/", conf.Files{Root: current})
	tried.TryFiles = []conf.Text{"/only1", "/only2", "=404"}
	h := newFront(t, conf.Config{Hosts: []conf.Host{{
		Defaults: &conf.Settings{Files: conf.Files{Root: current, Precompressed: []string{"gzip", "br", "zstd"}}},
		Locations: []conf.Location{
			at("/alias/", conf.Files{Alias: current + "/"}), at("/file", conf.Files{Alias: current + "/x"}),
			at("/below/", conf.Files{Alias: conf.Text(dir) + "/"}),
			at("/variable/", conf.Files{Alias: conf.Text(dir) + "/$arg_d/"}), at("/whole/",
				conf.Files{Alias: "$arg_d/"}),
			at("/list/", conf.Files{Root: current, Listing: true}), missing, tried,
		},
	}}})
	check := func(release string) {
		t.Helper()
		n := strings.TrimPrefix(release, "r")
		for target, want := range map[string]string{
			"/x": release + "/x", "/": release + "/index.html", "/large": strings.Repeat(release, 300_000),
			"/alias/x": release + "/x", "/file": release + "/x",
			"/below/current/x": release + "/x", "/variable/x?d=current": release + "/x", "/whole/x?d=" +
				string(current): release + "/x", "/gz": release + "/gz.gz",
			"/tried/": release + "/only" + n, "/error/none": release + "/err.html",
		} {
			if got := get(t, h, target, "Accept-Encoding", "gzip"); got.body != want {
				t.Errorf("%s of %s: %d %.40q", target, release, got.status, got.body)
			}
		}
		if got := get(t, h, "/list/"); !strings.Contains(got.body, `href="`+n+`"`) {
			t.Errorf("list of %s: %d %.40q", release, got.status, got.body)
		}
		if got := get(t, h, "/only"+n); got.status != 200 {
			t.Errorf("/only%s: %d", n, got.status)
		}
	}
	for _, release := range []string{"r1", "r2", "r1", "r2"} {
		deploy(release)
		check(release)
	}
	if got := get(t, h, "/only1"); got.status != 404 {
		t.Errorf("a file of the old release: %d", got.status)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "r1")))
	check("r2")
	must(t, os.Rename(filepath.Join(dir, "r2"), filepath.Join(dir, "gone")))
	if got := get(t, h, "/x"); got.status != 404 {
		t.Errorf("a dangling link: %d %q", got.status, got.body)
	}
}

// A file that changes, appears or disappears does so for the next request.
func TestChangedFilesAreServed(t *testing.T) {
	dir := site(t, "x", "real")
	h := newFront(t, conf.Config{Hosts: []conf.Host{{
		Defaults: &conf.Settings{Files: conf.Files{Root: conf.Text(dir),
			Precompressed: []string{"gzip", "br", "zstd"}}},
		Locations: []conf.Location{{Path: "/alias",
			Settings: &conf.Settings{Files: conf.Files{Alias: conf.Text(dir + "/later")}}}, {Path: "/dir/",
			Settings: &conf.Settings{Files: conf.Files{Root: conf.Text(dir + "/new")}}}},
	}}})
	check := func(target, want string) {
		t.Helper()
		if got := get(t, h, target, "Accept-Encoding", "gzip"); got.body != want && (want != "" || got.status != 404) {
			t.Errorf("%s: %d %q, want %q", target, got.status, got.body, want)
		}
	}
	put := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	check("/alias", "")
	put("later", "later")
	check("/alias", "later")
	check("/dir/x", "")
	must(t, os.MkdirAll(filepath.Join(dir, "new/dir"), 0o755))
	put("new/dir/x", "here")
	check("/dir/x", "here")
	check("/x", "x")
	// in the same tick of the kernel's clock
	for _, text := range []string{"1", "2", "3", "longer"} {
		put("x", text)
		check("/x", text)
	}
	put("x.gz", "packed")
	check("/x", "packed")
	must(t, os.Remove(filepath.Join(dir, "x.gz")))
	check("/x", "longer")
	must(t, os.Remove(filepath.Join(dir, "x")))
	check("/x", "")
	if err := os.Symlink("real", filepath.Join(dir, "x")); err != nil {
		t.Skip(err)
	}
	check("/x", "real")
	put("real", "changed")
	check("/x", "changed")
}

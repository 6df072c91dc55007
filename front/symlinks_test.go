package front_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// disable_symlinks rejects links in its part of the path.
func TestDisableSymlinksRejectsLinks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("links can be refused on Linux only")
	}
	dir := site(t, "r1/x", "r1/index.html", "r2/x", "r2/index.html")
	root := conf.Text(dir + "/current")
	for _, link := range [][2]string{{"r1", "current"}, {"x", "r1/link"}, {"../r2", "r1/dir"},
		{"nowhere", "r1/dangling"}, {"loop", "r1/loop"}} {
		must(t, os.Symlink(link[0], filepath.Join(dir, link[1])))
	}
	at := func(path, how string, from, root conf.Text) conf.Location {
		return conf.Location{Path: path,
			Settings: &conf.Settings{Files: conf.Files{Alias: root + "/", DisableSymlinks: how, SymlinksFrom: from}}}
	}
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{
		at("/off/", "", "", root), at("/on/", "on", "", root),
		at("/real/", "on", "", conf.Text(dir)+"/r1"),
		at("/from/", "on", root, root), at("/slash/", "on", root+"/", root),
		at("/root/", "on", "$document_root", root),
		at("/other/", "on", "/elsewhere", root),
		at("/variable/", "on", conf.Text(dir)+"/$arg_d", root),
		at("/owner/", "if_not_owner", "", root),
	}}}})
	for target, status := range map[string]int{
		"/off/x": 200, "/off/link": 200, "/off/dir/x": 200, "/off/dangling": 404, "/off/loop": 403, "/off/dir": 301,
		"/on/x": 404, "/on/none": 404, "/real/x": 200, "/real/link": 403, "/real/dir/x": 404, "/real/dir/": 404,
		"/real/dir": 403, "/real/dangling": 403, "/real/none": 404, "/real/x/y": 404, "/real/": 200,
		"/from/x": 200, "/from/link": 403, "/from/dir/x": 404, "/slash/x": 200, "/slash/link": 403, "/root/x": 200,
		"/root/link": 403, "/other/x": 404,
		"/variable/x?d=current": 200, "/variable/link?d=current": 403, "/variable/x?d=curr": 404,
		"/variable/x?d=r1": 404,
		"/owner/x":         200, "/owner/link": 200, "/owner/dir/x": 200, "/owner/dangling": 404,
	} {
		for range 2 {
			if got := get(t, h, target); got.status != status {
				t.Errorf("%s: %d, want %d", target, got.status, status)
			}
		}
	}
}

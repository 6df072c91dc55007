package front_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Nothing outside of the directory of an alias or a root is served, whatever the path and its
// variables.
func TestNothingOutsideIsServed(t *testing.T) {
	top := site(t, "public/x.txt", "public-secret", "secret", "public/d/y.txt", "w/secret")
	h := newFront(t, parseConf(t, "", strings.ReplaceAll(`root PUBLIC;
		location /i { alias PUBLIC/; }
		location /j { alias PUBLIC; }
		location /k/ { alias PUBLIC/; }
		location /l/ { alias PUBLIC; }
		location /m/ { alias PUBLIC/$arg_d/; }
		location /r/ { root PUBLIC/$arg_d; }
		location /v/ { root $arg_d; }
		location ~ ^/u/(.*)$ { alias PUBLIC/$1; }
		location /t/ { try_files $arg_f =404; }
		location /w/ { rewrite ^ /$arg_p break; }`, "PUBLIC", top+"/public")))
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

// More trusted prefixes than the front keeps handlers for do not disturb the responses under way.
func TestManyTrustedPrefixes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("links can be refused on Linux only")
	}
	const clients, requests = 4, 100
	dir := site(t, "r1/x")
	h := newFront(t, parseConf(t, "", strings.ReplaceAll(`
		location / { alias SITE/r1/; disable_symlinks on from=$arg_from; }`, "SITE", dir)))
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range requests {
				target := fmt.Sprintf("/x?from=/%d", (i+n)%50)
				get(t, h, target).is(t, http.StatusOK)
			}
		})
	}
	all.Wait()
}

// Programs can parse a listing whatever the names are. Package corpus compares it with nginx's.
func TestListingCanBeParsed(t *testing.T) {
	names := []string{"<&>", `"quote"`, `back\slash`, "new\nline", "\u00fc"}
	root := site(t, names...)
	testkit.Must(t, os.Symlink("nowhere", filepath.Join(root, "link")))
	a := serveConf(t, "", strings.ReplaceAll(`autoindex on; location /json/ { alias ROOT/; autoindex_format json; }
		location /html/ { alias ROOT/; }`, "ROOT", root))
	var list []struct {
		Name, Type string
		Size       *int
	}
	testkit.Must(t, json.Unmarshal([]byte(a.get("/json/").body), &list))
	testkit.Equal(t, len(list), len(names)+1, "entries")
	for _, e := range list {
		if isLink := e.Name == "link"; isLink != (e.Type == "other") || isLink != (e.Size == nil) ||
			!isLink && !slices.Contains(names, e.Name) {
			t.Errorf("%+v", e)
		}
	}
	if got := a.get("/html/").body; strings.Count(got, "<a href=") != len(names)+2 || strings.Contains(got, "<&>") {
		t.Errorf("%s", got)
	}
}

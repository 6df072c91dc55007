package front_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// A body is in the file whose name the upstream receives, and the file stays if it is to be kept.
func TestBodyIsInNamedFile(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, body := range []string{"short", strings.Repeat("long", 50_000)} {
			for _, noBody := range []bool{false, true} {
				dir := t.TempDir()
				to := serve(t, func(w http.ResponseWriter, r *http.Request) {
					sent, _ := io.ReadAll(r.Body)
					stored, err := os.ReadFile(r.Header.Get("X-File"))
					fmt.Fprint(w, string(stored) == body, " ", len(sent), " ", err)
				})
				s := conf.Settings{BodyFile: "clean", BodyDir: dir}
				if keep {
					s.BodyFile = "on"
				}
				p := conf.Proxy{To: conf.Text(to), NoBody: noBody, StreamRequest: true,
					Header: []conf.Field{{Name: "X-File", Value: "$request_body_file"}}}
				a := serveHandler(t, newFront(t, oneHost(conf.Location{Path: "/", Proxy: &p, Settings: &s})))
				want := fmt.Sprint("true ", len(body), " <nil>")
				if noBody {
					want = "true 0 <nil>"
				}
				if got := a.do("POST", "/", strings.NewReader(body)); got.body != want {
					t.Errorf("%v, want %s", got, want)
				}
				a.get("/") // no body: no file. The response shows that the first request has ended.
				kept, err := filepath.Glob(filepath.Join(dir, "*"))
				if must(t, err); keep != (len(kept) == 1) {
					t.Errorf("keep %v: files %v", keep, kept)
				}
			}
		}
	}
}

// The folder of bodies must be one that the process can write. A check of a Config does not create
// it.
func TestBodyFolderIsWritableAndNotMadeByChecks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	c := func(dir string) conf.Config {
		return oneHost(conf.Location{Path: "/", Settings: &conf.Settings{BodyFile: "clean", BodyDir: dir}})
	}
	newFront(t, c(dir), front.CachesInMemory())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has created the folder: %v", err)
	}
	if _, err := front.New(c(filepath.Join(dir, "x")), front.CachesInMemory()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("check without the parent: %v", err)
	}
	must(t, os.WriteFile(dir, nil, 0o600)) // where also root cannot create files
	if _, err := front.New(c(dir)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file in place of the folder: %v", err)
	}
}

// A body that cannot be stored is the server's error.
func TestBodyThatCannotBeStored(t *testing.T) {
	to := serve(t, echo)
	dir := filepath.Join(t.TempDir(), "gone")
	must(t, os.Mkdir(dir, 0o700))
	s := conf.Settings{BodyFile: "clean", BodyDir: dir}
	a := serveHandler(t, newFront(t,
		oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)}, Settings: &s})))
	must(t, os.Remove(dir))
	if got := a.do("POST", "/", strings.NewReader("body")); got.status != 500 {
		t.Errorf("%v", got)
	}
}

//go:build unix

package files_test

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
)

// Each file of a directory is chosen at times, and nothing else.
func TestRandomFileIsOneOfTheDirectory(t *testing.T) {
	s := newSite(t)
	const most = 5
	for i := range most {
		s.write("dir/"+strconv.Itoa(i), "x")
	}
	s.write("dir/.hidden", "x")
	s.write("dir/folder/x", "x")
	s.write("empty/.hidden", "x")
	s.must(os.Symlink("folder", s.path("dir/folderlink")))
	s.must(os.Symlink("nothing", s.path("dir/dangling")))
	s.must(os.Symlink("folder/x", s.path("dir/link")))
	for _, symlinks := range []string{"", "on"} {
		if symlinks != "" && runtime.GOOS != "linux" {
			continue
		}
		h, err := files.New(files.Config{Dir: s.path(""), ByPath: true, Dotfiles: true, HideDotfiles: true,
			DisableSymlinks: symlinks, SymlinksFrom: s.path("")})
		s.must(err)
		found := make(map[string]bool)
		for range 1000 { // one of 6 is missing with a probability of 10^-78
			name, status := h.RandomFile("/dir/")
			if status != 0 {
				t.Fatal(status)
			}
			found[name] = true
		}
		want := most
		if symlinks == "" {
			want++ // the link
		}
		for i := range most {
			if !found[strconv.Itoa(i)] {
				t.Errorf("%d is never chosen", i)
			}
		}
		if len(found) != want || symlinks == "on" && found["link"] {
			t.Errorf("with DisableSymlinks %q: %v", symlinks, found)
		}
		for path, want := range map[string]int{"/empty/": 0, "/none/": http.StatusNotFound,
			"/dir/0": http.StatusNotFound} {
			if name, status := h.RandomFile(path); name != "" || status != want {
				t.Errorf("%s: %q, %d; want %d", path, name, status, want)
			}
		}
		s.must(h.Close())
	}
}

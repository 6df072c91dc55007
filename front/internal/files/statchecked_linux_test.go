package files_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// The kind of a path is known without the permission to read it, for each policy of links. A link
// is Denied, or the kind of its target.
func TestUnreadableFileHasKind(t *testing.T) {
	if !asNobody(t) {
		return
	}
	s := newSite(t)
	s.write("dir/file", "x")
	s.must(os.Symlink("dir", s.path("link")))
	s.must(os.Symlink("dir/file", s.path("filelink")))
	s.must(syscall.Mkfifo(s.path("fifo"), 0))
	s.must(os.Chmod(s.path("dir/file"), 0))
	s.must(os.Chmod(s.path("dir"), 0o311))
	defer func() { s.must(os.Chmod(s.path("dir"), 0o755)) }()
	for _, symlinks := range []string{"", "if_not_owner", "on"} {
		h, err := files.New(files.Config{Dir: s.path(""), ByPath: true, DisableSymlinks: symlinks,
			SymlinksFrom: strings.TrimSuffix(s.path(""), "/")})
		s.must(err)
		for name, want := range map[string]files.Kind{
			"/dir": files.Directory, "/dir/": files.Directory, "/dir/file": files.File, "/fifo": files.Nothing,
			"/dir/none": files.Nothing,
			"/link":     files.Directory, "/filelink": files.File,
		} {
			if symlinks == "on" && strings.HasSuffix(name, "link") {
				want = files.Denied
			}
			testkit.Equal(t, h.Kind(name), want, symlinks, name)
		}
		s.must(h.Close())
	}
}

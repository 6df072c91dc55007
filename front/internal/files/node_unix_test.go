//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/internal/files"
)

// Opening a pipe would block until another process writes to it.
func TestOnlyRegularFilesAreServed(t *testing.T) {
	s := newSite(t)
	s.must(unix.Mkfifo(s.path("pipe"), 0o644))
	s.must(unix.Mkfifo(s.path("x.html.gz"), 0o644))
	s.write("x.html", "x")
	l, err := net.Listen("unix", s.path("socket"))
	s.must(err)
	defer l.Close()
	// the same as /dev/null
	device := unix.Mknod(s.path("null"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3)))
	if device != nil && !errors.Is(device, fs.ErrPermission) {
		t.Fatal(device)
	}
	onEach(t, s.handler(files.Config{Listing: true, Compress: files.Compress{Siblings: true}}),
		func(t *testing.T, ours host) {
			for _, path := range []string{"/pipe", "/socket", "/null", "/pipe/", "/null/x"} {
				if got := ours.request(t, "GET", path); got.status != 404 {
					t.Errorf("%s: %d", path, got.status)
				}
			}
			if got := ours.request(t, "GET", "/x.html", "Accept-Encoding: gzip"); got.body != "x" {
				t.Errorf("%+v", got)
			}
			if got := ours.request(t, "GET", "/"); strings.Contains(got.body, "pipe") ||
				strings.Contains(got.body, "null") {
				t.Errorf("the page lists a file that is not served:\n%s", got.body)
			}
		})
}

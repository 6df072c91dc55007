//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// Opening a pipe would block until another process writes to it.
func TestOnlyRegularFilesAreServed(t *testing.T) {
	s := newSite(t)
	s.must(unix.Mkfifo(s.path("pipe"), 0o644))
	s.must(unix.Mkfifo(s.path("x.html.gz"), 0o644))
	s.write("x.html", "x")
	l := testkit.Value(net.Listen("unix", s.path("socket")))(t)
	defer l.Close()
	// the same as /dev/null
	device := unix.Mknod(s.path("null"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3)))
	if device != nil && !errors.Is(device, fs.ErrPermission) {
		t.Fatal(device)
	}
	onEach(t, s.handler(files.Config{Listing: true, Compress: files.Compress{Siblings: true}}),
		func(t *testing.T, ours host) {
			for _, path := range []string{"/pipe", "/socket", "/null", "/pipe/", "/null/x"} {
				testkit.Equal(t, ours.request(t, "GET", path).status, 404, path)
			}
			testkit.Equal(t, ours.request(t, "GET", "/x.html", "Accept-Encoding: gzip").body, "x")
			if got := ours.request(t, "GET", "/"); strings.Contains(got.body, "pipe") ||
				strings.Contains(got.body, "null") {
				t.Errorf("the page lists a file that is not served:\n%s", got.body)
			}
		})
}

// asNobody makes a test run without root privileges, in a process of its own. It reports whether
// this is the process that runs it.
func asNobody(t *testing.T) bool {
	t.Helper()
	const variable, nobody = "FILES_TEST_AS_NOBODY", 65534
	if os.Geteuid() != 0 {
		return true
	}
	if os.Getenv(variable) == "" {
		c := testkit.Command(t, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), variable+"=1")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("%v\n%s", err, out)
		}
		return false
	}
	testkit.Must(t, syscall.Setgid(nobody))
	testkit.Must(t, syscall.Setuid(nobody))
	return true
}

// A file that is no longer readable is not served from memory, and is served again once it is
// readable.
func TestUnreadableFileIsNotServedFromMemory(t *testing.T) {
	if !asNobody(t) {
		return
	}
	detections(t, func(t *testing.T, c files.Config) {
		t.Parallel()
		s := newSite(t, "x.txt", "x", "d/x.txt", "x", "large", large(1, 400_000), "y.txt", "y", "y.txt.gz", "packed",
			"i/index.html", "index")
		c.Compress.Siblings = true
		h := s.handler(c)
		ours := hosts(t, h)[1]
		for _, test := range []struct {
			path, chmod string
			status      int
			body        string
		}{
			{"/x.txt", "x.txt", 403, ""}, {"/d/x.txt", "d", 403, ""}, {"/large", "large", 403, ""},
			{"/y.txt", "y.txt.gz", 200, "y"},
			{"/i/", "i/index.html", 403, ""}, {"/i/", "i", 403, ""},
		} {
			before := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
			testkit.Equal(t, before.status, 200, test.path)
			info := testkit.Value(os.Stat(s.path(test.chmod)))(t)
			s.must(os.Chmod(s.path(test.chmod), 0))
			testkit.WaitFor(t, test.path+" is seen to be unreadable", func() bool {
				got := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
				return got.status == test.status && (test.body == "" || got.body == test.body)
			})
			s.must(os.Chmod(s.path(test.chmod), info.Mode()))
			testkit.WaitFor(t, test.path+" comes back", func() bool {
				got := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
				return got.status == 200 && got.body == before.body
			})
		}
	})
}

//go:build unix

package files_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// asNobody makes a test run without root privileges, in a process of its own.
const asNobody, nobody = "FILES_TEST_AS_NOBODY", 65534

// A file that is no longer readable is not served from memory, and is served again once it is
// readable.
func TestUnreadableFileIsNotServedFromMemory(t *testing.T) {
	if os.Geteuid() == 0 && os.Getenv(asNobody) == "" {
		c := testkit.Command(t, os.Args[0], "-test.run=^TestUnreadableFileIsNotServedFromMemory$", "-test.v")
		c.Env = append(os.Environ(), asNobody+"=1")
		if out, err := c.CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "--- PASS: TestUnreadableFileIsNotServedFromMemory") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if os.Geteuid() == 0 {
		testkit.Must(t, syscall.Setgid(nobody))
		testkit.Must(t, syscall.Setuid(nobody))
	}
	detections(t, func(t *testing.T, limits files.Limits) {
		s := newSite(t)
		s.write("x.txt", "x")
		s.write("d/x.txt", "x")
		s.write("large", large(1, 400_000))
		s.write("y.txt", "y")
		s.write("y.txt.gz", "packed")
		s.write("i/index.html", "index")
		h := s.handler(files.Config{Limits: limits, Compress: files.Compress{Siblings: true}})
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
			if before.status != 200 {
				t.Fatalf("%s: %d", test.path, before.status)
			}
			info, err := os.Stat(s.path(test.chmod))
			s.must(err)
			s.must(os.Chmod(s.path(test.chmod), 0))
			until(t, test.path+" is seen to be unreadable", func() bool {
				got := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
				return got.status == test.status && (test.body == "" || got.body == test.body)
			})
			s.must(os.Chmod(s.path(test.chmod), info.Mode()))
			until(t, test.path+" comes back", func() bool {
				got := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
				return got.status == 200 && got.body == before.body
			})
		}
	})
}

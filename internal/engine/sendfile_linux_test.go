package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// fileSenders send a file of a size, in the ways of handlers.
var fileSenders = map[string]func(w http.ResponseWriter, r *http.Request, f *os.File, size int64){
	"ServeFile": func(w http.ResponseWriter, r *http.Request, f *os.File, _ int64) {
		http.ServeFile(w, r, f.Name())
	},
	"ServeContent": func(w http.ResponseWriter, r *http.Request, f *os.File, _ int64) {
		http.ServeContent(w, r, "f", time.Time{}, f)
	},
	"Copy":  func(w http.ResponseWriter, _ *http.Request, f *os.File, _ int64) { _, _ = io.Copy(w, f) },
	"CopyN": func(w http.ResponseWriter, _ *http.Request, f *os.File, size int64) { _, _ = io.CopyN(w, f, size) },
	"LimitedReader": func(w http.ResponseWriter, _ *http.Request, f *os.File, size int64) {
		_, _ = io.Copy(w, &io.LimitedReader{R: f, N: size + 1})
	},
	"embedded": func(w http.ResponseWriter, _ *http.Request, f *os.File, _ int64) {
		_, _ = io.Copy(w, struct{ *os.File }{f})
	},
}

// The kernel sends a large file: the process neither reads it nor holds it in memory.
func TestLargeFileIsSentWithoutReading(t *testing.T) {
	testkit.Long(t, "it transfers much")
	const size, mostReads, mostAllocated = 100 << 20, 500, 8 << 20
	name := filepath.Join(t.TempDir(), "f")
	testkit.Must(t, os.WriteFile(name, nil, 0o600))
	testkit.Must(t, os.Truncate(name, size))
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", strconv.Itoa(size))
		fileSenders[r.URL.Path[1:]](w, r, f, size)
	}), func(s *site) {
		for way := range fileSenders {
			c := s.connect()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reads := readCalls(s.T)
			io.WriteString(c, "GET /"+way+" HTTP/1.0\r\n\r\n")
			n, head := drain(s.T, c.(*net.TCPConn))
			reads = readCalls(s.T) - reads
			runtime.ReadMemStats(&after)
			if n < size || !strings.Contains(head, fmt.Sprintf("Content-Length: %d\r\n", size)) {
				s.Errorf("%s: got %d bytes of %d: %q", way, n, size, head)
			}
			if reads > mostReads {
				s.Errorf("%s: %d calls of read(2)", way, reads)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > mostAllocated {
				s.Errorf("%s: allocated %d bytes", way, got)
			}
			s.Logf("%s: %d calls of read(2), %d bytes allocated", way, reads, after.TotalAlloc-before.TotalAlloc)
		}
	})
}

// readCalls returns how often the process has called read(2) and similar calls. Input from sockets
// by recv(2) is not counted.
func readCalls(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	testkit.Must(t, err)
	_, after, _ := strings.Cut(string(b), "syscr: ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// drain receives everything by recv(2), and returns its length and its first bytes.
func drain(t *testing.T, c *net.TCPConn) (n int, head string) {
	t.Helper()
	f, err := c.File()
	testkit.Must(t, err)
	defer f.Close()
	b := make([]byte, 256<<10)
	for {
		m, _, err := syscall.Recvfrom(int(f.Fd()), b, 0) // Fd makes it blocking
		if err == syscall.EINTR {
			continue
		}
		testkit.Must(t, err)
		if m == 0 {
			return n, head
		}
		if n == 0 {
			first, _, _ := bytes.Cut(b[:m], []byte("\r\n\r\n"))
			head = string(first)
		}
		n += m
	}
}

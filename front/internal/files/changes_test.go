package files_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// detections runs a test with a root that is opened once, and with one that is found by its path.
func detections(t *testing.T, f func(t *testing.T, c files.Config)) {
	t.Run("root", func(t *testing.T) { f(t, files.Config{}) })
	t.Run("by path", func(t *testing.T) { f(t, files.Config{ByPath: true}) })
}

// After any change of files, the handler soon serves the new state.
func TestChangesBecomeVisible(t *testing.T) {
	testkit.Long(t, "it waits until changes become visible")
	big, other := large(6, 400_000), large(7, 400_000)
	for _, test := range []struct {
		name, path   string
		before, then func(s *site)
		want         string // or a status
		status       int
		notByPath    bool // links lead anywhere there, and the front has its own indexes
	}{
		{name: "written to", path: "/x.txt", then: func(s *site) {
			s.must(os.WriteFile(s.path("x.txt"), []byte("new"), 0o644))
		}, want: "new"},
		{name: "replaced", path: "/x.txt", then: func(s *site) {
			s.must(os.WriteFile(s.path("y"), []byte("new"), 0o644))
			s.must(os.Rename(s.path("y"), s.path("x.txt")))
		}, want: "new"},
		{name: "replaced by one with the same times", path: "/x.txt", then: func(s *site) {
			s.write("y", "nwe")
			s.must(os.Rename(s.path("y"), s.path("x.txt")))
		}, want: "nwe"},
		{name: "truncated", path: "/x.txt", then: func(s *site) { s.must(os.Truncate(s.path("x.txt"), 1)) }, want: "o"},
		{name: "deleted", path: "/x.txt", then: func(s *site) { s.must(os.Remove(s.path("x.txt"))) }, status: 404},
		{name: "created", path: "/y.txt", then: func(s *site) { s.write("y.txt", "new") }, want: "new"},
		{name: "moved away", path: "/d/x.txt", then: func(s *site) { s.must(os.Rename(s.path("d"), s.path("e"))) },
			status: 404},
		{name: "moved far away", path: "/d/e/f/x.txt",
			then: func(s *site) { s.must(os.Rename(s.path("d"), s.path("gone"))) }, status: 404},
		{name: "directory replaced", path: "/d/x.txt", then: func(s *site) {
			s.write("new/x.txt", "new")
			s.must(os.Rename(s.path("d"), s.path("old")))
			s.must(os.Rename(s.path("new"), s.path("d")))
		}, want: "new"},
		{name: "directory replaced by a link inside", path: "/d/x.txt", then: func(s *site) {
			s.write("new/x.txt", "new")
			s.must(os.RemoveAll(s.path("d")))
			s.must(os.Symlink("new", s.path("d")))
		}, want: "new"},
		{name: "directory replaced by a link outside", path: "/d/x.txt", then: func(s *site) {
			s.must(os.WriteFile(s.out+"/x.txt", []byte(secret), 0o644))
			s.must(os.RemoveAll(s.path("d")))
			s.must(os.Symlink("../outside", s.path("d")))
		}, status: 404, notByPath: true},
		{name: "directory moved outside, with a link to it", path: "/d/x.txt", then: func(s *site) {
			s.must(os.Rename(s.path("d"), s.out+"/d"))
			s.must(os.Symlink("../outside/d", s.path("d")))
		}, status: 404, notByPath: true},
		{name: "file replaced by a directory", path: "/x.txt", then: func(s *site) {
			s.must(os.Remove(s.path("x.txt")))
			s.must(os.Mkdir(s.path("x.txt"), 0o755))
		}, status: 301},
		{name: "index replaced by one that comes first", path: "/d/",
			before: func(s *site) { s.write("d/index.htm", "old") },
			then:   func(s *site) { s.write("d/index.html", "new") }, want: "new", notByPath: true},
		{name: "index deleted", path: "/i/", then: func(s *site) { s.must(os.Remove(s.path("i/index.html"))) },
			status: 403},
		{name: "sibling created", path: "/x.txt", then: func(s *site) { s.write("x.txt.gz", "packed") },
			want: "packed"},
		{name: "sibling deleted", path: "/z.txt", then: func(s *site) { s.must(os.Remove(s.path("z.txt.gz"))) },
			want: "old"},
		{name: "what a link leads to is written to", path: "/link.txt",
			then: func(s *site) { s.must(os.WriteFile(s.path("d/x.txt"), []byte("new"), 0o644)) }, want: "new"},
		{name: "what a link leads to is created", path: "/dangling.txt",
			then: func(s *site) { s.write("d/none.txt", "new") }, want: "new"},
		{name: "another name is written to", path: "/hard.txt",
			then: func(s *site) { s.must(os.WriteFile(s.path("d/hard.txt"), []byte("new"), 0o644)) }, want: "new"},
		{name: "large written to", path: "/large",
			then: func(s *site) { s.must(os.WriteFile(s.path("large"), []byte(other), 0o644)) }, want: other},
		{name: "large truncated", path: "/large",
			then: func(s *site) { s.must(os.Truncate(s.path("large"), 300_000)) }, want: big[:300_000]},
		{name: "large replaced", path: "/large", then: func(s *site) {
			s.write("y", other)
			s.must(os.Rename(s.path("y"), s.path("large")))
		}, want: other},
		{name: "large deleted", path: "/large", then: func(s *site) { s.must(os.Remove(s.path("large"))) },
			status: 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			detections(t, func(t *testing.T, c files.Config) {
				if c.ByPath && test.notByPath {
					return
				}
				t.Parallel()
				s := newSite(t)
				for _, name := range []string{"x.txt", "d/x.txt", "d/e/f/x.txt", "d/hard.txt", "i/index.html",
					"z.txt"} {
					s.write(name, "old")
				}
				s.write("z.txt.gz", "packed")
				s.write("large", big)
				s.must(os.Symlink("d/x.txt", s.path("link.txt")))
				s.must(os.Symlink("d/none.txt", s.path("dangling.txt")))
				s.must(os.Link(s.path("d/hard.txt"), s.path("hard.txt")))
				if test.before != nil {
					test.before(s)
				}
				c.Index, c.Compress.Siblings = []string{"index.html", "index.htm"}, true
				h := s.handler(c)
				ours := hosts(t, h)[1]
				made := time.Now()
				testkit.WaitFor(t, "time has passed since the files were made",
					func() bool { return time.Since(made) > 150*time.Millisecond })
				for range 3 {
					ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
				}
				test.then(s)
				status := test.status
				if status == 0 {
					status = 200
				}
				testkit.WaitFor(t, fmt.Sprintf("%d %.20q", status, test.want), func() bool {
					got := ours.request(t, "GET", test.path, "Accept-Encoding: gzip")
					return got.status == status && (status != 200 || got.body == test.want)
				})
			})
		})
	}
}

// A slow client gets the old contents of a large file, or an error.
func TestChangeWhileSentIsDetected(t *testing.T) {
	testkit.Long(t, "it changes files for seconds")
	const size = 16 << 20 // more than sockets buffer
	for name, change := range map[string]func(s *site) error{
		"truncated":  func(s *site) error { return os.Truncate(s.path("large"), size/2) },
		"written to": func(s *site) error { return overwrite(s.path("large")) },
		"replaced": func(s *site) error {
			return errors.Join(os.WriteFile(s.path("y"), []byte("new"), 0o644), os.Rename(s.path("y"), s.path("large")))
		},
		"deleted": func(s *site) error { return os.Remove(s.path("large")) },
		"nothing": func(*site) error { return nil },
	} {
		whole := name == "replaced" || name == "deleted" || name == "nothing"
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			onEach(t, s.handler(files.Config{}), func(t *testing.T, ours host) {
				s.must(os.RemoveAll(s.path("large")))
				s.must(os.WriteFile(s.path("large"), nil, 0o644))
				s.must(os.Truncate(s.path("large"), size))
				s.must(os.Chtimes(s.path("large"), past, past))
				testkit.WaitFor(t, "the file again", func() bool { return ours.request(t, "HEAD", "/large").status == 200 })
				resp := testkit.Value(ours.client.Get(ours.url + "/large"))(t)
				defer resp.Body.Close()
				testkit.Equal(t, resp.ContentLength, size)
				testkit.Value(io.ReadFull(resp.Body, make([]byte, 1000)))(t)
				s.must(change(s))
				n, err := io.Copy(io.Discard, resp.Body)
				if n += 1000; whole && (err != nil || n != size) {
					t.Errorf("%d bytes of %d, then %v", n, size, err)
				} else if !whole && err == nil {
					t.Errorf("%d bytes of %d, and no error", n, size)
				}
			})
		})
	}
}

// overwrite changes the end of a file that is being sent.
func overwrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("changed"), 15<<20)
	return err
}

// A file that is replaced all the time is never served as a mixture: all bytes are equal, and their
// number is the announced one.
func TestResponseIsNeverAMixture(t *testing.T) {
	testkit.Long(t, "it changes files for seconds")
	detections(t, func(t *testing.T, c files.Config) {
		t.Parallel()
		s := newSite(t)
		contents := func(n int, c byte) string { return strings.Repeat(string(rune('a'+c%26)), n+int(c)) }
		sizes := map[string]int{"small": 30_000, "big": 400_000}
		for name, n := range sizes {
			s.write(name, contents(n, 0))
		}
		c.Compress.Gzip = true
		h := s.handler(c)
		var stopped atomic.Bool
		var writers, readers sync.WaitGroup
		writers.Go(func() {
			for c := byte(0); !stopped.Load(); c++ {
				for name, n := range sizes {
					testkit.Check(t, errors.Join(os.WriteFile(s.path("new"), []byte(contents(n, c)), 0o644),
						os.Rename(s.path("new"), s.path(name))))
				}
				time.Sleep(time.Duration(c%7) * time.Millisecond) // the writer's pace
			}
		})
		for _, ours := range hosts(t, h) {
			for name := range sizes {
				readers.Go(func() {
					for range 15 {
						a, err := ours.try("GET", "/"+name, "Accept-Encoding: gzip")
						if err == nil && a.status == 503 {
							continue // it has just been replaced each time
						}
						body := a.body
						if err == nil && a.header.Get("Content-Encoding") == "gzip" {
							body = gunzip(t, body)
						}
						if err != nil || len(body) == 0 || strings.Trim(body, body[:1]) != "" ||
							len(body) != sizes[name]+int(body[0]-'a')+(len(body)-sizes[name])/26*26 {
							t.Errorf("%s %s: %v, %d, a mix of %d bytes", ours.name, name, err, a.status, len(body))
						}
					}
				})
			}
		}
		readers.Wait()
		stopped.Store(true)
		writers.Wait()
	})
}

// Responses leave no descriptor open, and Close closes the directory's.
func TestDescriptorsAreLimitedAndClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	s := newSite(t, "large", large(1, 300_000), "small", "x")
	s.must(os.Mkdir(s.path("d"), 0o755))
	open := func() (n int) {
		all := testkit.Value(os.ReadDir("/proc/self/fd"))(t)
		for _, e := range all {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, s.dir) {
				n++
			}
		}
		return n
	}
	h := s.handler(files.Config{Listing: true, Compress: files.Compress{Siblings: true, Gzip: true}})
	ours := hosts(t, h)[1]
	began := open()
	for _, path := range []string{"/large", "/small", "/d/", "/none", "/large/"} {
		for range 2 {
			ours.request(t, "GET", path, "Accept-Encoding: gzip")
			ours.request(t, "GET", path, "Range: bytes=5-9,100-101")
		}
	}
	testkit.WaitFor(t, "descriptors to be closed", func() bool { return open() == began })
	s.must(h.Close())
	testkit.Equal(t, open(), 0, "open descriptors after Close")
}

func TestEarlyDisconnectLeaksNothing(t *testing.T) {
	s := newSite(t)
	s.must(os.WriteFile(s.path("large"), nil, 0o644))
	s.must(os.Truncate(s.path("large"), 16<<20))
	s.must(os.Chtimes(s.path("large"), past, past))
	var running atomic.Int64
	h := s.handler(files.Config{})
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		h.ServeHTTP(w, r)
	})
	for _, ours := range hosts(t, counted)[:2] {
		for range 5 {
			c := testkit.Value(net.Dial("tcp", ours.addr))(t)
			fmt.Fprint(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
			testkit.Value(bufio.NewReader(c).ReadString('\n'))(t)
			c.Close()
		}
		testkit.WaitFor(t, "the handlers return", func() bool { return running.Load() == 0 })
	}
}

// sink is a cheap ResponseWriter.
type sink struct {
	header http.Header
	bytes  int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return len(p), nil
}
func (s *sink) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	s.bytes += int(n)
	return n, err
}

func (s *sink) serve(h http.Handler, r *http.Request) {
	s.header = make(http.Header)
	h.ServeHTTP(s, r)
}

// A small file in memory costs one allocation, for the values, in addition to those of a header
// with one field, which the server needs anyway. The request's fields make no difference.
func TestSmallFileCostsOneAllocation(t *testing.T) {
	s := newSite(t, "x.html", large(1, 3516))
	h := s.handler(files.Config{CacheControl: "max-age=60", Compress: files.Compress{Gzip: true, Siblings: true}})
	r := httptest.NewRequest("GET", "/x.html", nil)
	browser := httptest.NewRequest("GET", "/x.html", nil)
	for name, value := range map[string]string{
		"User-Agent": "x", "Accept": "*/*", "Accept-Encoding": "gzip, deflate, br, zstd", "Accept-Language": "en",
		"Cookie": "a=b",
	} {
		browser.Header.Set(name, value)
	}
	var w sink
	base := testkit.Allocs(200, func() {
		w.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Etag"] = nil
			_, _ = w.Write(nil)
		}), r)
	})
	for what, r := range map[string]*http.Request{"bare": r, "browser's": browser} {
		n := testkit.Allocs(200, func() { w.serve(h, r) })
		testkit.Between(t, n, 0, base+1, "allocations of a", what, "request; of a header", base)
	}
}

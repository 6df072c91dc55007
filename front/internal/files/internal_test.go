package files

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

func resourceOf(key string, bytes int) *resource {
	return &resource{key: key, identity: &variant{content: make([]byte, bytes)}}
}

// The cache stays within its limits, and keeps what is requested.
func TestCacheStaysWithinItsLimits(t *testing.T) {
	const most, size = 100, 10_000
	c := newCache(most, 50*(size+resourceWeight+10))
	for i := range 5000 {
		c.put(resourceOf(strconv.Itoa(i), size))
		if i%10 == 0 {
			c.put(resourceOf("popular", 10))
		}
		testkit.Equal(t, c.get("popular") != nil, true, "the popular resource is there after", i)
		testkit.Between(t, len(c.ring), 1, most, "resources")
		testkit.Between(t, c.bytes, 1, c.maxBytes, "bytes")
	}
	testkit.Between(t, len(c.ring), 40, most, "stored resources of about 50")
	c.put(resourceOf("giant", int(c.maxBytes)))
	testkit.Equal(t, c.get("giant"), nil, "a resource larger than the cache")
	r := resourceOf("grows", 10)
	c.put(r)
	r.encoded[0].Store(&variant{content: make([]byte, c.maxBytes)})
	c.grow(r, c.maxBytes)
	testkit.Between(t, c.bytes, 0, c.maxBytes, "bytes after growing")
	c.close()
	testkit.Equal(t, c.bytes, 0, "bytes of the empty cache")
	testkit.Equal(t, len(c.ring), 0, "resources of the empty cache")
	for i := range c.shards {
		if m := c.shards[i].Load(); m != nil && len(*m) > 0 {
			t.Errorf("shard %d holds %d", i, len(*m))
		}
	}
}

func TestCacheRemovesKeys(t *testing.T) {
	c := newCache(100, 1<<20)
	for _, k := range []string{"/", "/a", "/b"} {
		c.put(resourceOf(k, 1))
	}
	c.remove(c.get("/b"))
	testkit.Equal(t, c.get("/b"), nil, "a removed resource")
	old := c.get("/a")
	fresh := resourceOf("/a", 2)
	c.put(fresh)
	c.remove(old)
	testkit.Equal(t, c.get("/a") == fresh, true, "the successor of a removed resource stays")
	c.close()
	if c.put(resourceOf("/x", 1)); c.get("/x") != nil || c.get("/a") != nil {
		t.Error("a closed cache stores resources")
	}
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	c := newCache(50, 1<<20)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				k := "/" + strconv.Itoa((i*7+w)%80)
				if c.get(k) == nil {
					c.put(resourceOf(k, 100))
				}
				if i%50 == 0 {
					c.remove(cmp.Or(c.get(k), resourceOf(k, 0)))
				}
			}
		})
	}
	all.Wait()
	testkit.Between(t, len(c.ring), 0, 50, "resources")
}

// meddled is a file that changes when it is read for the n-th time.
type meddled struct {
	*os.File
	reads  int
	meddle func(read int)
}

func (m *meddled) ReadAt(p []byte, at int64) (int, error) {
	m.reads++
	n, err := m.File.ReadAt(p, at)
	m.meddle(m.reads)
	return n, err
}

// The bytes read are those of one moment, whatever happens during reading.
func TestReadIsOfOneMoment(t *testing.T) {
	testkit.Long(t, "it changes files for seconds")
	const size = 1000
	old, fresh := bytes.Repeat([]byte("o"), size), bytes.Repeat([]byte("n"), size)
	long := time.Now().Add(-time.Hour)
	for _, test := range []struct {
		name string
		// meddle receives the number of the last read.
		meddle func(t *testing.T, path string, read int)
		want   []byte // nil means that it is not in memory
	}{
		{name: "nothing", meddle: func(*testing.T, string, int) {}, want: old},
		{name: "written to", meddle: func(t *testing.T, path string, read int) {
			if read == 1 {
				put(t, path, fresh, time.Now())
			}
		}, want: fresh},
		{name: "truncated", meddle: func(t *testing.T, path string, read int) {
			if read == 1 {
				put(t, path, fresh[:10], time.Now())
			}
		}, want: fresh[:10]},
		{name: "grown out of memory", meddle: func(t *testing.T, path string, read int) {
			if read == 1 {
				put(t, path, bytes.Repeat(fresh, 3), time.Now())
			}
		}},
		{name: "never the same", meddle: func(t *testing.T, path string, read int) {
			put(t, path, bytes.Repeat([]byte{byte(read)}, size), time.Now())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			put(t, path, old, long)
			f := testkit.Value(os.Open(path))(t)
			defer f.Close()
			m := &meddled{f, 0, func(read int) { test.meddle(t, path, read) }}
			v := &variant{}
			for v.stamp.size == 0 || !v.stamp.Settled(time.Now()) { // then its times are reliable
				time.Sleep(time.Millisecond)
				v.stamp = testkit.Value(stampOf(m))(t)
			}
			testkit.Must(t, v.read(m, 2*size, &resource{}))
			testkit.Equal(t, string(v.content), string(test.want))
		})
	}
}

func put(t *testing.T, path string, content []byte, modified time.Time) {
	t.Helper()
	testkit.Must(t, errors.Join(os.WriteFile(path, content, 0o644), os.Chtimes(path, modified, modified)))
}

// A resource that was recently changed is loaded again, even if its times are equal.
func TestUnripeResourceIsLoadedAgain(t *testing.T) {
	for _, byPath := range []bool{false, true} {
		h := handlerOf(t, Config{ByPath: byPath}, "x.txt", "content")
		request := func() string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/x.txt", nil))
			return w.Body.String()
		}
		request()
		res := h.cache.get("/x.txt")
		if !res.unripe {
			t.Skip("the machine is too slow for this test")
		}
		res.identity.content = []byte("Content")
		res.checked.Store(h.now() + int64(time.Hour))
		testkit.Equal(t, request(), "Content", "from memory, by path", byPath)
		res.checked.Store(-int64(time.Hour))
		testkit.Equal(t, request(), "content", "ByPath", byPath, "with the same times")
	}
}

// While nothing changes in its directories, a resource needs no check. One with another name, which
// may be in another directory, does.
func TestUnchangedResourceNeedsNoCheck(t *testing.T) {
	h := handlerOf(t, Config{}, "x.txt", "content")
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot watch directories")
	}
	isChecked := func() bool {
		res, status := h.lookup("/x.txt", "x.txt", false)
		testkit.Equal(t, status, 0, "x.txt is there")
		res.checked.Store(-int64(time.Hour))
		return h.fresh(res)
	}
	needsNone := func() bool { return isChecked() && h.cache.get("/x.txt").changes.Load() == h.watch.count() }
	testkit.WaitFor(t, "a check to suffice", needsNone)
	dir := h.plan.config.Dir
	for _, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "y.txt"), nil, 0o644) },
		func() error { return os.Mkdir(filepath.Join(dir, "folder"), 0o755) }, // all watches begin anew
	} {
		before := h.watch.count()
		testkit.Must(t, change())
		testkit.WaitFor(t, "the change to be counted", func() bool { return h.watch.count() > before })
		testkit.WaitFor(t, "a check to suffice", needsNone)
	}
	testkit.Must(t, os.Link(filepath.Join(dir, "x.txt"), filepath.Join(dir, "z.txt")))
	testkit.WaitFor(t, "a file with two names to need checks",
		func() bool { return isChecked() && h.cache.get("/x.txt").changes.Load() == 0 })
}

func handlerOf(t *testing.T, c Config, name, content string) *Handler {
	t.Helper()
	c.Dir = t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(c.Dir, name), []byte(content), 0o644))
	h := testkit.Value(New(c))(t)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func planOf(t testing.TB, c Config) *plan {
	t.Helper()
	c.Dir = "x"
	return testkit.Value(compile(c))(t)
}

func TestPlaceNormalizesPaths(t *testing.T) {
	p, dotfiles := planOf(t, Config{}), planOf(t, Config{Dotfiles: true})
	for path, want := range map[string]int{"/.hidden": 0, "/d/.well-known/x": 0, "/../x": 400} {
		_, _, status := dotfiles.place(path)
		testkit.Equal(t, status, want, "with dotfiles", path)
	}
	for _, test := range []struct {
		path, name string
		dir        bool
		status     int
	}{
		{"", "", true, 0}, {"/", "", true, 0}, {"//", "", true, 0}, {"/.", "", true, 0}, {"/a", "a", false, 0},
		{"a", "a", false, 0},
		{"/a/", "a", true, 0}, {"/a/.", "a", true, 0}, {"//a//b", "a/b", false, 0}, {"/./a/./b/", "a/b", true, 0},
		{"/..", "", false, 400}, {"/a/..", "", false, 400}, {"/a/../b", "", false, 400}, {"/.x/..", "", false, 400},
		{"/a\x00", "", false, 400},
		{"/...", "", false, 404}, {"/.a", "", false, 404}, {"/.well-known/a", ".well-known/a", false, 0},
		{"/a/.well-known", "", false, 404},
		{"/console", "console", false, 0}, {"/com", "com", false, 0}, {"/com10", "com10", false, 0},
		{"/x.con", "x.con", false, 0}, {"/common.css", "common.css", false, 0},
		{"/" + strings.Repeat("a", 255), strings.Repeat("a", 255), false, 0},
		{"/" + strings.Repeat("a", 256), "", false, 404}, {strings.Repeat("/a", 2049), "", false, 404},
	} {
		name, dir, status := p.place(test.path)
		if name != test.name || dir != test.dir || status != test.status {
			t.Errorf("%.50q: %.50q %v %d, want %.50q %v %d", test.path, name, dir, status, test.name, test.dir,
				test.status)
		}
	}
}

// Names that Windows treats as something else are rejected there, and only there.
func TestMisreadNamesAreRejectedOnWindows(t *testing.T) {
	p := planOf(t, Config{})
	for _, name := range []string{"a:b", `a\b`, "con", "CoN.txt", "nul .txt", "com1", "com¹.x", "conout$",
		"a.", "a ", "aux.js", "x.txt::$DATA"} {
		want := 0
		if runtime.GOOS == "windows" {
			want = 404
		}
		_, _, status := p.place("/" + name)
		testkit.Equal(t, status, want, name)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/a//b/./c/", "/\x00", `/a\..\b`, "/con.txt", "/.git/config", "/a:b",
		"//", "..", "/%2e", "/. ./a", "/\xff"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, path string, dotfiles bool) {
		p := planOf(t, Config{Dotfiles: dotfiles})
		name, dir, status := p.place(path)
		if status != 0 {
			if name != "" || dir || status != 400 && status != 404 {
				t.Fatalf("refused with %d: %q", status, name)
			}
			return
		}
		if name != "" && (!fs.ValidPath(strings.ToValidUTF8(name, "?")) || !filepath.IsLocal(name)) ||
			strings.Contains(name, "\x00") || runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`) {
			t.Fatalf("%q is %q", path, name)
		}
		again, dirAgain, status := p.place(key(name, dir))
		if again != name || dirAgain != dir || status != 0 {
			t.Fatalf("the key of %q, %q, is %q", path, key(name, dir), again)
		}
		for segment := range strings.SplitSeq(name, "/") {
			if strings.HasPrefix(segment, ".") && !dotfiles && !strings.HasPrefix(name, ".well-known") {
				t.Fatalf("%q serves %q", path, name)
			}
		}
	})
}

func FuzzAcceptEncoding(f *testing.F) {
	for _, s := range []string{"gzip", "br;q=1.0, gzip;q=0.8, *;q=0.1", "identity;q=0", ";;;,,,", "gzip;q=1.0001", "*",
		"gzip ; q = 0.5", "gzip;q=0.5;x"} {
		f.Add(s)
	}
	p := planOf(f, Config{})
	f.Fuzz(func(t *testing.T, value string) {
		w := parseAcceptEncoding(value, &p.codings)
		for i, q := range w.codings {
			if q < 0 || q > 1000 || q > 0 && !strings.Contains(value, "*") &&
				!strings.Contains(strings.ToLower(value), p.codings[i].token) {
				t.Fatalf("%q: %v", value, w)
			}
		}
		if w.identity < -1 || w.identity > 1000 {
			t.Fatalf("%q: %v", value, w)
		}
	})
}

func TestErrorsHaveStatus(t *testing.T) {
	for err, want := range map[error]int{
		fs.ErrNotExist: 404, fs.ErrPermission: 403, errIrregular: 404, errors.New("path escapes from parent"): 404,
		fs.ErrClosed: 503,
	} {
		testkit.Equal(t, statusOf(&fs.PathError{Op: "open", Path: "x", Err: err}), want, err)
	}
}

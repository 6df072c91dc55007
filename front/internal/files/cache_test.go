package files

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	onStored := func() {}
	for i := range 5000 {
		c.put(resourceOf(strconv.Itoa(i), size), onStored)
		if i%10 == 0 {
			c.put(resourceOf("popular", 10), onStored)
		}
		testkit.Equal(t, c.get("popular") != nil, true, "the popular resource is there after", i)
		testkit.Between(t, len(c.ring), 1, most, "resources")
		testkit.Between(t, c.bytes, 1, c.maxBytes, "bytes")
	}
	testkit.Between(t, len(c.ring), 40, most, "stored resources of about 50")
	c.put(resourceOf("giant", int(c.maxBytes)), onStored)
	testkit.Equal(t, c.get("giant"), nil, "a resource larger than the cache")
	r := resourceOf("grows", 10)
	c.put(r, onStored)
	r.encoded[0].Store(&variant{content: make([]byte, c.maxBytes)})
	c.grow(r, c.maxBytes)
	testkit.Between(t, c.bytes, 0, c.maxBytes, "bytes after growing")
	c.removeBelow("")
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
	for _, k := range []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab"} {
		c.put(resourceOf(k, 1), func() {})
	}
	c.removeBelow("/a/")
	for k, want := range map[string]bool{"/": true, "/a": true, "/a/": false, "/a/b": false, "/a/b/c": false,
		"/ab": true} {
		testkit.Equal(t, c.get(k) != nil, want, k)
	}
	old := c.get("/a")
	fresh := resourceOf("/a", 2)
	c.put(fresh, func() {})
	c.remove("/a", old)
	testkit.Equal(t, c.get("/a") == fresh, true, "the successor of a removed resource stays")
	if !old.identity.files.retired || c.renew(old, func() {}) || !c.renew(fresh, func() {}) {
		t.Error("the replaced resource is not retired")
	}
	c.close()
	if c.put(resourceOf("/x", 1), func() {}); c.get("/x") != nil || c.get("/a") != nil {
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
					c.put(resourceOf(k, 100), func() {})
				}
				if i%50 == 0 {
					c.remove(k, nil)
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
			for v.stamp.size == 0 || !v.stamp.ripe(time.Now()) { // then its times are reliable
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
		res.checks.last.Store(h.now() + int64(time.Hour))
		testkit.Equal(t, request(), "Content", "from memory, by path", byPath)
		h.tick.Add(unwatchedTicks)
		res.checks.last.Store(0)
		testkit.Equal(t, request(), "content", "ByPath", byPath, "with the same times")
	}
}

// After an event during loading, a resource is valid for a short time only.
func TestEventDuringLoadingShortensValidity(t *testing.T) {
	h := handlerOf(t, Config{}, "x.txt", strings.Repeat("x", 10))
	if h.watch == nil {
		t.Skip(h.WatchError().Error())
	}
	for _, happens := range []bool{false, true} {
		l := &loader{h: h, since: h.watch.events(), sure: true}
		if happens {
			testkit.Must(t, os.WriteFile(filepath.Join(h.plan.config.Dir, "y.txt"), nil, 0o644))
			for h.watch.events() == l.since {
				time.Sleep(time.Millisecond)
			}
		}
		res := &resource{}
		l.setUntil(res)
		ticks := res.until.Load() - h.tick.Load()
		testkit.Equal(t, ticks <= unwatchedTicks, happens, "the resource is valid for", ticks, "ticks, briefly")
	}
}

func handlerOf(t *testing.T, c Config, name, content string) *Handler {
	t.Helper()
	c.Dir = t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(c.Dir, name), []byte(content), 0o644))
	h := testkit.Value(New(c))(t)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

package files

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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
			f, err := os.Open(path)
			testkit.Must(t, err)
			defer f.Close()
			m := &meddled{f, 0, func(read int) { test.meddle(t, path, read) }}
			v := &variant{}
			for v.stamp.size == 0 || !v.stamp.ripe(time.Now()) { // then its times are reliable
				time.Sleep(time.Millisecond)
				if v.stamp, err = stampOf(m); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Must(t, v.read(m, 2*size, &resource{}))
			if !bytes.Equal(v.content, test.want) {
				t.Errorf("%.20q of %d bytes, want %.20q of %d", v.content, len(v.content), test.want, len(test.want))
			}
		})
	}
}

// Two changes within a tick of the clock have the same times. Reading twice detects them.
func TestReadingTwiceDetectsFastChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	put(t, path, []byte("old"), time.Now())
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	s, err := stampOf(f)
	testkit.Must(t, err)
	m := &meddled{f, 0, func(int) {}}
	if b, again, err := readTwice(m, s, false); string(b) != "old" || again != s || err != nil || m.reads != 2 {
		t.Errorf("%q %v after %d reads", b, err, m.reads)
	}
	m = &meddled{f, 0, func(read int) {
		if read == 1 {
			put(t, path, []byte("new"), time.Now())
		}
	}}
	if b, _, err := readTwice(m, s, false); !errors.Is(err, errChanged) {
		t.Errorf("%q %v, want errChanged", b, err)
	}
}

// timeless is a file whose recent times do not change.
type timeless struct {
	meddled
	fs.FileInfo
	modified time.Time
}

func (f *timeless) Stat() (fs.FileInfo, error) { return f, nil }
func (f *timeless) ModTime() time.Time         { return f.modified }
func (f *timeless) Size() int64                { return 3 }
func (f *timeless) Sys() any                   { return nil }
func (f *timeless) Name() string               { return "x" }

// Recent times are not trusted.
func TestRecentTimesAreNotTrusted(t *testing.T) {
	for range 100 {
		path := filepath.Join(t.TempDir(), "x")
		put(t, path, []byte("old"), time.Now())
		f, err := os.Open(path)
		testkit.Must(t, err)
		defer f.Close()
		recent := &timeless{meddled: meddled{f, 0, func(read int) {
			if read == 1 {
				put(t, path, []byte("new"), time.Now())
			}
		}}, modified: time.Now()}
		v, res := &variant{stamp: stamp{size: 3, modified: recent.modified.UnixNano()}}, &resource{}
		testkit.Must(t, v.read(recent, 100, res))
		if time.Since(recent.modified) >= settle {
			continue // too slow for a recent time
		}
		if string(v.content) != "new" || !res.unripe {
			t.Errorf("%q, unripe: %v", v.content, res.unripe)
		}
		return
	}
	t.Skip("the machine is too slow for this test")
}

func put(t *testing.T, path string, content []byte, modified time.Time) {
	t.Helper()
	testkit.Must(t, errors.Join(os.WriteFile(path, content, 0o644), os.Chtimes(path, modified, modified)))
}

// A resource that was recently changed is loaded again, even if its times are equal.
func TestUnripeResourceIsLoadedAgain(t *testing.T) {
	h := handlerOf(t, "x.txt", "content")
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
	if got := request(); got != "Content" {
		t.Fatalf("not from memory: %q", got)
	}
	h.tick.Add(unwatchedTicks)
	if got := request(); got != "content" {
		t.Errorf("with the same times, %q was not reloaded", got)
	}
}

// After an event during loading, a resource is valid for a short time only.
func TestEventDuringLoadingShortensValidity(t *testing.T) {
	h := handlerOf(t, "x.txt", strings.Repeat("x", 10))
	if h.watch == nil {
		t.Skip(h.WatchError().Error())
	}
	for _, happens := range []bool{false, true} {
		l := &loader{h: h, since: h.watch.events(), sure: true}
		if happens {
			testkit.Must(t, os.WriteFile(filepath.Join(h.plan.dir, "y.txt"), nil, 0o644))
			for h.watch.events() == l.since {
				time.Sleep(time.Millisecond)
			}
		}
		res := &resource{}
		l.setUntil(res)
		if ticks := res.until.Load() - h.tick.Load(); (ticks <= unwatchedTicks) != happens {
			t.Errorf("with an event: %v, the resource is valid for %d ticks", happens, ticks)
		}
	}
}

func handlerOf(t *testing.T, name, content string) *Handler {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	h, err := New(Config{Dir: dir})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// A descriptor that returns to a removed resource is closed.
func TestRetiredVariantClosesDescriptors(t *testing.T) {
	h := handlerOf(t, "x.txt", "x")
	open := func() *os.File {
		o, err := h.tree.open("x.txt")
		testkit.Must(t, err)
		return o.File
	}
	v := &variant{}
	kept, late := open(), open()
	h.giveBack(v, kept)
	if h.idle.Load() != 1 || v.files.pop() != kept {
		t.Fatal("the descriptor is not idle")
	}
	h.giveBack(v, kept)
	v.files.retire()
	h.giveBack(v, late)
	for _, f := range []*os.File{kept, late} {
		if _, err := f.Stat(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("the descriptor is open: %v", err)
		}
	}
	if h.idle.Load() != 0 {
		t.Errorf("%d idle descriptors are counted", h.idle.Load())
	}
}

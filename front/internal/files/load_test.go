package files

import (
	"bytes"
	"errors"
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
		if got := request(); got != "Content" {
			t.Fatalf("ByPath: %v: not from memory: %q", byPath, got)
		}
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
		if ticks := res.until.Load() - h.tick.Load(); (ticks <= unwatchedTicks) != happens {
			t.Errorf("with an event: %v, the resource is valid for %d ticks", happens, ticks)
		}
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

package cache_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

// If files were removed by another program, the responses are fetched again.
func TestRemovedFileIsFetchedAgain(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, dir string) error{
		"each": func(t *testing.T, dir string) (err error) {
			for _, file := range filesIn(t, dir) {
				err = errors.Join(err, os.Remove(file))
			}
			return err
		},
		"all, as people do to purge everything": func(_ *testing.T, dir string) error {
			all, err := os.ReadDir(dir)
			for _, e := range all {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
			return err
		},
		"the directory": func(_ *testing.T, dir string) error { return os.RemoveAll(dir) },
		"the directory, which is made again": func(_ *testing.T, dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		},
	} {
		onDisk(t, conf.Cache{Levels: []int{1, 2}}, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
			s.cache.NothingInMemory()
			s.responds(200, "old", fresh)
			s.get()
			synctest.Wait()
			if err := remove(t, dir); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s.responds(200, "new", fresh)
			s.get().want(t, cache.StateMiss, 200, "new")
			synctest.Wait()
			if s.get().want(t, cache.StateHit, 200, "new"); len(filesIn(t, dir)) != 1 || s.log.String() != "" {
				t.Errorf("%s: files %v, log %q", name, filesIn(t, dir), s.log)
			}
		})
	}
}

// A file that was truncated while the cache runs is not served, for conditional requests neither:
// the response is fetched again.
func TestTruncatedFileIsFetchedAgain(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		for _, fields := range [][]string{nil, {`If-None-Match: "other"`}, {"Range: bytes=1-"}} {
			onDisk(t, conf.Cache{}, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
				body := big(1 << 20)
				if !inMemory {
					s.cache.NothingInMemory()
				}
				s.responds(200, body, fresh)
				s.get()
				synctest.Wait()
				name := filesIn(t, dir)[0]
				info, err := os.Stat(name)
				testkit.Must(t, err)
				testkit.Must(t, os.Truncate(name, info.Size()-1))
				g := s.get(fields...)
				if g.err != nil || g.state != cache.StateMiss || !strings.HasSuffix(body, g.body) {
					t.Errorf("%q: %s, %d bytes of %d, %v", fields, g.state, len(g.body), len(body), g.err)
				}
				synctest.Wait()
				s.get().want(t, cache.StateHit, 200, body)
			})
		}
	}
}

// If the disk becomes full during a response, only the stored copy is lost.
func TestFullDiskDoesNotAffectClients(t *testing.T) {
	dir := t.TempDir()
	if err := mount(dir); err != nil {
		t.Skip("cannot mount a small file system: ", err)
	}
	defer func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	}()
	onDisk(t, conf.Cache{Dir: dir}, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site, dir string) {
		body := big(8 << 20)
		s.respondBy(func(*http.Request) (*http.Response, error) {
			r := response(200, body, fresh)
			r.ContentLength = -1
			return r, nil
		})
		for range 2 {
			if g := s.get(); g.err != nil || g.body != body || g.state != cache.StateMiss {
				t.Errorf("got %s %d with %d bytes, %v", g.state, g.status, len(g.body), g.err)
			}
			synctest.Wait()
		}
		if names := filesIn(t, dir); len(names) > 0 {
			t.Errorf("unexpected files: %v", names)
		}
		if log := s.log.String(); strings.Count(log, "no space left on device") != 1 || strings.Count(log, "\n") != 1 {
			t.Errorf("log %q, want one line about the disk", log)
		}
		s.responds(200, "small", fresh)
		s.request("GET", "http://a.example/small")
		synctest.Wait()
		s.request("GET", "http://a.example/small").want(t, cache.StateHit, 200, "small")
		if log := s.log.String(); !strings.HasSuffix(log, "writing responses to the disk again\n") {
			t.Errorf("log %q", log)
		}
	})
}

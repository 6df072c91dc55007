package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

// onDisk runs a test with a cache in a directory.
func onDisk(t *testing.T, config conf.Cache, policy conf.CachePolicy, f func(t *testing.T, s *site, dir string)) {
	t.Helper()
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	inCache(t, config, policy, func(t *testing.T, s *site) { f(t, s, config.Dir) })
}

// filesIn returns the files in a directory and below.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	testkit.Must(t, err)
	return names
}

func TestResponsesSurviveRestart(t *testing.T) {
	config := conf.Cache{Dir: t.TempDir(), Levels: []int{1, 2}, Inactive: 24 * time.Hour}
	policy := conf.CachePolicy{Revalidate: true}
	small, large := "small", big(1<<20)
	onDisk(t, config, policy, func(t *testing.T, s *site, _ string) {
		s.respondBy(func(r *http.Request) (*http.Response, error) {
			body := small
			if r.URL.Path == "/large" {
				body = large
			}
			return response(200, r.Header.Get("X")+body, "Cache-Control: max-age=600", "Vary: X", `Etag: "1"`, "Y: a",
				"Y: b"), nil
		})
		s.request("GET", "http://a.example/small")
		s.request("GET", "http://a.example/small", "X: 1")
		s.request("GET", "http://a.example/large")
	})
	testkit.Equal(t, len(filesIn(t, config.Dir)), 3, "files")
	onDisk(t, config, policy, func(t *testing.T, s *site, _ string) {
		time.Sleep(time.Second)
		s.fails(errOrigin)
		for range 2 {
			g := s.request("GET", "http://a.example/small")
			g.want(t, cache.StateHit, 200, small)
			testkit.Fields(t, g.header, "", "Content-Length", "5", "Y", "a, b", "Age", "1")
			s.request("GET", "http://a.example/small", "X: 1").want(t, cache.StateHit, 200, "1"+small)
			s.request("GET", "http://a.example/large").want(t, cache.StateHit, 200, large)
			s.request("GET", "http://a.example/large", "Range: bytes=16-31").want(t, cache.StateHit, 206, large[:16])
		}
		testkit.Error(t, s.request("GET", "http://a.example/large", "X: 1").err, errOrigin.Error(), "another variant")
		// The changes of a 304 survive a restart.
		time.Sleep(time.Hour)
		s.responds(304, "", "Cache-Control: max-age=7200", "Y: c")
		s.request("GET", "http://a.example/small").want(t, cache.StateRevalidated, 200, small)
		s.request("GET", "http://a.example/large").want(t, cache.StateRevalidated, 200, large)
	})
	onDisk(t, config, policy, func(t *testing.T, s *site, _ string) {
		time.Sleep(time.Hour + time.Minute)
		for url, body := range map[string]string{"http://a.example/small": small, "http://a.example/large": large} {
			g := s.request("GET", url)
			g.want(t, cache.StateHit, 200, body)
			testkit.Equal(t, g.header.Get("Y"), "c", url)
		}
		n := s.cache.Purge("http://a.example/small") + s.cache.Purge("http://a.example/large")
		testkit.Equal(t, n, 3, "responses purged")
	})
	testkit.Equal(t, len(filesIn(t, config.Dir)), 0, "files")
}

// However a file was truncated or changed, the response is correct or comes from the origin.
func TestTornFileIsNotServed(t *testing.T) {
	testkit.Long(t, "it tears a file at every place")
	source := t.TempDir()
	const url = "http://a.example/x"
	body := big(1 << 10)
	onDisk(t, conf.Cache{Dir: source}, conf.CachePolicy{}, func(t *testing.T, s *site, _ string) {
		s.responds(200, body, "Cache-Control: max-age=600")
		s.request("GET", url)
	})
	name := filesIn(t, source)[0]
	whole := testkit.Value(os.ReadFile(name))(t)
	torn := make(map[string][]byte)
	for n := 0; n < len(whole); n += 7 {
		torn[fmt.Sprintf("cut to %d", n)] = whole[:n]
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x40
		torn[fmt.Sprintf("another byte at %d", n)] = flipped
		zeroed := bytes.Clone(whole)
		clear(zeroed[n:])
		torn[fmt.Sprintf("zeros from %d", n)] = zeroed
	}
	torn["longer"] = append(bytes.Clone(whole), 'x')
	dir := t.TempDir()
	place := filepath.Join(dir, filepath.Base(name))
	for _, files := range []bool{false, true} {
		for what, content := range torn {
			testkit.Must(t, os.WriteFile(place, content, 0o600))
			onDisk(t, conf.Cache{Dir: dir}, conf.CachePolicy{}, func(t *testing.T, s *site, _ string) {
				if files {
					s.cache.NothingInMemory()
				}
				s.responds(200, "new")
				g := s.request("GET", url)
				// The room for a longer description does not matter.
				harmless := g.state == cache.StateHit && g.body == body && strings.HasPrefix(what, "another byte")
				if !harmless && (g.state != cache.StateMiss || g.body != "new") {
					t.Errorf("%s: got %s %d with %d bytes", what, g.state, g.status, len(g.body))
				}
			})
		}
	}
}

// Other programs' files are left alone; drafts and files of other levels are removed.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("ab", 24)
	for place, stays := range map[string]bool{
		"notes.txt": true, "a/notes": true, "drafts/" + name: false, "drafts/mine": true, "zz/" + name: false,
		strings.ToUpper(name): true,
	} {
		place := filepath.Join(dir, filepath.FromSlash(place))
		testkit.WriteFile(t, place, "x")
		defer func() {
			_, err := os.Stat(place)
			testkit.Equal(t, err == nil, stays, place)
		}()
	}
	onDisk(t, conf.Cache{Dir: dir, Levels: []int{2}}, conf.CachePolicy{}, func(*testing.T, *site, string) {})
}

// A requested response is not inactive, even if memory has no room for it and each request reads it
// from disk.
func TestResponseReadFromDiskIsActive(t *testing.T) {
	config := conf.Cache{Inactive: time.Minute, MemoryBytes: 1300} // of one response
	onDisk(t, config, conf.CachePolicy{}, func(t *testing.T, s *site, _ string) {
		s.responds(200, big(8<<10), fresh)
		s.get()
		s.request("GET", "http://a.example/y")
		synctest.Wait()
		for range 5 {
			time.Sleep(25 * time.Second)
			s.get().want(t, cache.StateHit, 200, big(8<<10))
			time.Sleep(25 * time.Second)
			s.request("GET", "http://a.example/y").want(t, cache.StateHit, 200, big(8<<10))
		}
		time.Sleep(75 * time.Second)
		s.wantEmpty()
	})
}

// The disk is limited, and memory besides: what is in a file can leave memory.
func TestDiskIsLimited(t *testing.T) {
	const room, memoryRoom = 1 << 20, 256 << 10
	onDisk(t, conf.Cache{MaxBytes: room, MemoryBytes: memoryRoom}, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
		s.responds(200, big(16<<10), fresh)
		for i := range 150 {
			s.request("GET", fmt.Sprint("http://a.example/", i))
			synctest.Wait()
			_, memory, _ := s.cache.Len()
			testkit.Between(t, memory, 1, memoryRoom, "bytes in memory")
		}
		total := int64(0)
		for _, name := range filesIn(t, dir) {
			info := testkit.Value(os.Stat(name))(t)
			total += info.Size()
		}
		if n, _, disk := s.cache.Len(); n < 50 || disk > room || total > room {
			t.Errorf("%d responses: %d bytes counted on disk, %d used", n, disk, total)
		}
	})
}

// MinFree stays free: nothing is written, and responses in memory are served.
func TestMinFreeStaysFree(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("free space is known on Linux only")
	}
	onDisk(t, conf.Cache{MinFree: 1 << 62}, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
		s.stores("small", fresh)
		s.get().want(t, cache.StateHit, 200, "small")
		s.responds(200, big(1<<20), fresh)
		for range 2 {
			s.request("GET", "http://a.example/large").want(t, cache.StateMiss, 200, big(1<<20))
		}
		testkit.Equal(t, strings.Join(filesIn(t, dir), " "), "", "files")
	})
}

func TestKeysWithTheSameHashDiffer(t *testing.T) {
	config := conf.Cache{Dir: t.TempDir()}
	one, two := "http://a.example/1", "http://a.example/2"
	onDisk(t, config, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
		s.responds(200, "one", fresh)
		s.request("GET", one)
		s.responds(200, "two", fresh)
		s.request("GET", two)
	})
	// The second key's file gets the name of the first one's.
	names := filesIn(t, config.Dir)
	for i, name := range names {
		if b, _ := os.ReadFile(name); bytes.Contains(b, []byte(one)) {
			testkit.Must(t, os.Rename(names[1-i], name))
			break
		}
	}
	onDisk(t, config, conf.CachePolicy{}, func(t *testing.T, s *site, dir string) {
		s.responds(200, "new", fresh)
		s.request("GET", one).want(t, cache.StateMiss, 200, "new")
		s.request("GET", two).want(t, cache.StateMiss, 200, "new")
	})
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for _, config := range []conf.Cache{
		{Levels: []int{3}}, {Levels: []int{1, 1, 1, 1}}, {MaxBytes: -1}, {MemoryBytes: -1}, {Inactive: -1},
		{MinFree: -1}, {Dir: file},
	} {
		config.Name = "one"
		testkit.Fails(cache.New(config, nil))(t, `cache "one"`, config)
	}
	for _, policy := range []conf.CachePolicy{
		{Ignore: []string{"Etag"}}, {MinUses: -1}, {LockAge: -1}, {Stale: conf.CacheStale{Statuses: []int{200}}},
		{Valid: []conf.CacheValid{{For: -1}}}, {Valid: []conf.CacheValid{{Statuses: []int{1000}}}},
	} {
		testkit.Fails(cache.Compile(policy, true))(t, "", policy)
	}
}

// A header that a 304 makes too long for its file is kept in memory.
func TestLongHeaderOfNotModifiedStaysInMemory(t *testing.T) {
	config := conf.Cache{Dir: t.TempDir(), Inactive: time.Hour}
	policy := conf.CachePolicy{Revalidate: true}
	onDisk(t, config, policy, func(t *testing.T, s *site, _ string) {
		s.becomesStale("x", "", `Etag: "1"`)
		s.responds(304, "", "Cache-Control: max-age=1000", "X: "+big(8<<10))
		s.get().want(t, cache.StateRevalidated, 200, "x")
		if g := s.get(); g.state != cache.StateHit || len(g.header.Get("X")) != 8<<10 {
			t.Errorf("got %s, %d bytes of X", g.state, len(g.header.Get("X")))
		}
	})
	onDisk(t, config, policy, func(t *testing.T, s *site, _ string) {
		time.Sleep(12 * time.Second)
		s.responds(304, "", "Cache-Control: max-age=1000")
		s.get().want(t, cache.StateRevalidated, 200, "x")
	})
}

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
			s.stores("old", fresh)
			testkit.Must(t, remove(t, dir))
			s.responds(200, "new", fresh)
			s.get().want(t, cache.StateMiss, 200, "new")
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
				s.stores(body, fresh)
				name := filesIn(t, dir)[0]
				info := testkit.Value(os.Stat(name))(t)
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
	config := conf.Cache{Dir: testkit.SmallDisk(t, "1m")}
	onDisk(t, config, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site, dir string) {
		body := big(8 << 20)
		s.respondBy(func(*http.Request) (*http.Response, error) {
			r := response(200, body, fresh)
			r.ContentLength = -1
			return r, nil
		})
		for range 2 {
			s.get().want(t, cache.StateMiss, 200, body)
		}
		testkit.Equal(t, strings.Join(filesIn(t, dir), " "), "", "files")
		if log := s.log.String(); strings.Count(log, "no space left on device") != 1 || strings.Count(log, "\n") != 1 {
			t.Errorf("log %q, want one line about the disk", log)
		}
		s.responds(200, "small", fresh)
		s.request("GET", "http://a.example/small")
		synctest.Wait()
		s.request("GET", "http://a.example/small").want(t, cache.StateHit, 200, "small")
		testkit.Contains(t, s.log.String(), "writing responses to the disk again\n")
	})
}

package cache

import (
	"context"
	"errors"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

const writtenKey = "a key"

// written returns a cache's directory with one response, and the name of its file.
func written(t *testing.T) (dir, name string) {
	t.Helper()
	dir = t.TempDir()
	c := testkit.Value(New(conf.Cache{Name: "test", Dir: dir}, nil))(t)
	defer c.Close()
	s := someStored()
	s.key, s.body, s.length = writtenKey, []byte("body"), 4
	d := testkit.Value(c.disk.create(s.length))(t)
	defer d.file.Close()
	_, p := encodeHead(prelude{}, s)
	testkit.Value(d.file.WriteAt(s.body, p.bodyAt()))(t)
	file := testkit.Value(d.keep(s, p.bodyAt(), checksum(0, s.body)))(t)
	return dir, file.name
}

// A key that is purged before the file of an earlier run is found stays purged.
func TestKeyPurgedDuringSearchStaysPurged(t *testing.T) {
	for _, purged := range []string{"", "another", writtenKey} {
		dir, name := written(t)
		c := testkit.Value(Open(conf.Cache{Name: "test", Dir: dir}, nil))(t)
		if purged != "" {
			c.Purge(purged)
		}
		path := filepath.Join(dir, name)
		info := testkit.Value(os.Stat(path))(t)
		c.found(name, fs.FileInfoToDirEntry(info), time.Now())
		_, err := os.Stat(path)
		id, want := identify(writtenKey), purged != writtenKey
		testkit.Equal(t, err == nil, want, purged, "was purged, and the file exists")
		testkit.Equal(t, c.index.shard(id).keys[id] != nil, want, purged, "was purged, and the key is in the index")
		c.Close()
	}
}

// A body of an earlier run is compared with its checksum once, for any number of concurrent
// requests.
func TestBodyIsCheckedOnce(t *testing.T) {
	dir, name := written(t)
	c := testkit.Value(New(conf.Cache{Name: "test", Dir: dir}, nil))(t)
	defer c.Close()
	path := filepath.Join(dir, name)
	b := testkit.Value(os.ReadFile(path))(t)
	b[len(b)-1] ^= 1 // a second check would detect the change
	testkit.Must(t, os.WriteFile(path, b, 0o600))
	f := &file{name: name}
	f.checking.Lock()
	results := make(chan error, 10)
	for range cap(results) {
		go func() {
			_, err := c.disk.read(f, 0)
			results <- err
		}()
	}
	f.checked.Store(true)
	f.checking.Unlock()
	for range cap(results) {
		testkit.Check(t, <-results)
	}
	testkit.Fails(c.disk.read(&file{name: name}, 0))(t, "", "a changed body was not detected")
}

// keeper is a client's response. If it fails, it keeps what it should have written, as HTTP/2 of
// net/http may after the client has reset the stream.
type keeper struct {
	http.ResponseWriter
	err  error
	kept []byte
}

func (k *keeper) Write(p []byte) (int, error) {
	k.kept = p
	return len(p), k.err
}

// Memory that a failed Write has received is not used for another client.
func TestMemoryOfFailedWriteIsNotReused(t *testing.T) {
	var pieces sync.Pool
	send := func(text string, to *keeper) {
		n := int64(len(text))
		r := &fillReader{ctx: context.Background(), pieces: &pieces,
			f: &fill{state: filled, buf: []byte(text), size: n, length: n, writerDone: true}}
		_ = r.sendTo(to) // an error is wanted
	}
	for range 50 {
		failed := &keeper{err: errors.New("the stream was reset")}
		send("one client's", failed)
		send("another one's", new(keeper))
		testkit.Equal(t, string(failed.kept), "one client's", "the memory")
	}
}

// perByte is the number of bytes that may be allocated per input byte: headers are maps of slices
// of strings.
const perByte = 64

// allocates fails if f allocates more than allowed for an input of that length.
func allocates(t *testing.T, bytes int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	// other goroutines allocate, too
	most := uint64(perByte*bytes) + 64<<10
	testkit.Between(t, after.TotalAlloc-before.TotalAlloc, 0, most, "allocated bytes for", bytes)
}

// Cache-Control is parsed without panics or large allocations, and never more permissively than its
// plain text.
func FuzzControl(f *testing.F) {
	for _, s := range []string{
		"", "max-age=60", `no-store, x="a,\"b", private="y"`, "s-maxage=1,max-age=99999999999999999999", `max-age="5"`,
		`x="no-store`, "=,=,;", "max-age",
		"no-cache=\"a\x00\"", " ,, PUBLIC ,\tmust-revalidate", `a="\`,
	} {
		f.Add(s, "max-age=10")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		var d directives
		allocates(t, len(one)+len(two), func() { d = parseControl([]string{one, two}) })
		_, _ = parseTargeted([]string{one, two}) // must not panic
		for name, seconds := range d {
			if seconds < 0 || seconds > maxSeconds {
				t.Errorf("%q: %s: %d", one, name, seconds)
			}
		}
		// Without quotes and arguments there is only one way to read it.
		if !strings.ContainsAny(one+two, `"=`) {
			for word := range strings.SplitSeq(one+","+two, ",") {
				if strings.ToLower(strings.Trim(word, " \t")) == "no-store" && !d.has("no-store") {
					t.Errorf("%q, %q: no-store was ignored", one, two)
				}
			}
		}
	})
}

func FuzzStored(f *testing.F) {
	for range 3 {
		f.Add(appendStored(nil, someStored()))
	}
	f.Add([]byte("\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *stored
		var err error
		allocates(t, len(b), func() { s, err = parseStored(b) })
		if err != nil {
			return
		}
		again, err := parseStored(appendStored(nil, s))
		testkit.Check(t, err)
		testkit.Equal(t, again, s)
	})
}

func FuzzPrelude(f *testing.F) {
	b, _ := encodeHead(prelude{bodySum: 7, body: 9}, someStored())
	f.Add(b[:preludeSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePrelude(b); err == nil && (p.room > maxRoom || p.length > p.room || p.body < 0) {
			t.Errorf("%+v", p)
		}
	})
}

// someStored returns any response.
func someStored() *stored {
	text := func() string { return strings.Repeat("é\x00x", rand.IntN(9)) }
	s := &stored{key: text(), status: 200 + rand.IntN(300), header: http.Header{}, life: lifetime{
		received: time.Unix(0, rand.Int64N(1<<60)), age: time.Duration(rand.Int64()),
		fresh:        time.Unix(0, rand.Int64N(1<<60)),
		revalidating: time.Duration(rand.Int64()), strict: rand.IntN(2) == 0,
	}}
	for range rand.IntN(5) {
		s.header[text()] = []string{text(), text()}
		s.choices = append(s.choices, choice{text(), text()})
	}
	return s
}

// New opens a cache and begins.
func New(config conf.Cache, errors *log.Logger) (*Cache, error) {
	c, err := Open(config, errors)
	if err == nil {
		c.Begin()
	}
	return c, err
}

// NothingInMemory makes the cache read all bodies from files.
func (c *Cache) NothingInMemory() { c.most.Store(-1) }

// Unload evicts everything from the memory of a cache on disk.
func (c *Cache) Unload() {
	for c.disk != nil && c.index.evictOne((*shard).leastInMemory, c.index.unloadLocked) {
	}
}

// Held returns the bytes in memory of responses on their way in, and of those that left the index
// and are still being sent.
func Held(c *Cache) (pending, loose int64) { return c.pending.Load(), c.index.leases.loose.Load() }

package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
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
	_, p := appendHead(nil, prelude{}, s)
	testkit.Value(d.file.WriteAt(s.body, p.bodyAt()))(t)
	file := testkit.Value(d.keep(s, p.bodyAt(), checksum(0, s.body)))(t)
	return dir, file.name
}

// A key that is purged while the files of an earlier run are being found stays purged.
func TestKeyPurgedDuringSearchStaysPurged(t *testing.T) {
	forget := map[string]func(c *Cache){
		"nothing": func(*Cache) {},
		"another": func(c *Cache) { c.Purge("another") },
		"it":      func(c *Cache) { c.Purge(writtenKey) },
		"more than are remembered": func(c *Cache) {
			for i := range maxForgotten {
				var id keyID
				binary.LittleEndian.PutUint32(id[:], uint32(i))
				c.forget(id)
			}
		},
	}
	for what, forgets := range forget {
		dir, name := written(t)
		c := testkit.Value(New(conf.Cache{Name: "test", Dir: dir}, nil))(t)
		<-c.search.done
		id := identify(writtenKey)
		c.index.discard = func(*file) {} // the file must be found again
		c.index.dropKey(id)
		c.index.discard = func(f *file) { c.disk.remove(f) }
		c.search.begin()
		forgets(c)
		info := testkit.Value(os.Stat(filepath.Join(dir, name)))(t)
		c.found(name, fs.FileInfoToDirEntry(info), time.Now())
		c.search.end()
		_, err := os.Stat(filepath.Join(dir, name))
		want := what == "nothing" || what == "another"
		kept, found := err == nil, c.index.shard(id).keys[id] != nil
		testkit.Equal(t, kept, want, what, "was purged, and the file exists")
		testkit.Equal(t, found, want, what, "was purged, and the key is in the index")
		c.Close()
	}
}

func TestPurgeReadsHeadsOnly(t *testing.T) {
	dir, name := written(t)
	path := filepath.Join(dir, name)
	b := testkit.Value(os.ReadFile(path))(t)
	b[len(b)-1] ^= 1 // of the body
	testkit.Must(t, os.WriteFile(path, b, 0o600))
	c := testkit.Value(New(conf.Cache{Name: "test", Dir: dir}, nil))(t)
	defer c.Close()
	testkit.Equal(t, c.PurgePrefix("another"), 0, "responses purged")
	testkit.Equal(t, c.PurgePrefix(writtenKey[:1]), 1)
	testkit.Fails(os.Stat(path))(t, "no such file")
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
		_ = r.sendTo(to, false) // an error is wanted
	}
	for range 50 {
		failed := &keeper{err: errors.New("the stream was reset")}
		send("one client's", failed)
		send("another one's", new(keeper))
		testkit.Equal(t, string(failed.kept), "one client's", "the memory")
	}
}

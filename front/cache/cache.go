package cache

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Cache keeps answers. It is safe for use by any number of requests at once. Make one with New, and Close it.
type Cache struct {
	name     string // as Cache-Status has it
	errors   *log.Logger
	inactive atomic.Int64
	most     atomic.Int64 // bytes of a body that is kept in memory
	index    index
	disk     *disk // nil if there is none

	changes     changes
	purges      atomic.Uint64 // of more than a key
	purging     sync.Mutex    // held by who looks through everything
	search      search
	uncacheable marks
	uses        uses
	pieces      sync.Pool // of *[sendPiece]byte

	pending  atomic.Int64 // bytes in memory of answers on their way in, and to those who read them meanwhile
	intakes  atomic.Int64 // answers on their way in
	behind   atomic.Int64 // of which nobody waits for
	waiting  atomic.Int64 // requests for others' answers
	closing  context.Context
	close    context.CancelFunc
	begun    sync.Once
	closed   sync.Once
	routines sync.WaitGroup
}

// New makes a cache, and begins to look for what is in its directory, see Open.
func New(config Config, errors *log.Logger) (*Cache, error) {
	c, err := Open(config, errors)
	if err == nil {
		c.Begin()
	}
	return c, err
}

// Open makes a cache that leaves the files in its directory alone until Begin: they may be another's that is still in use. Panics of origins that
// no request's server learns of are said in errors; nil is package log's.
func Open(config Config, errors *log.Logger) (*Cache, error) {
	if err := check(&config); err != nil {
		return nil, err
	}
	c := &Cache{name: quoteName(config.Name), errors: errors}
	if c.errors == nil {
		c.errors = log.Default()
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.search.begin()
	c.index.init()
	c.index.discard = func(f *file) { c.disk.remove(f) }
	if config.Dir != "" {
		d, err := openDisk(config.Dir, config.Levels, config.MinFree)
		if err != nil {
			return nil, fmt.Errorf("cache %q: %w", config.Name, err)
		}
		c.disk = d
		d.makeRoom = func() { c.index.evictFiles(makeRoom) }
	}
	c.Resize(config)
	return c, nil
}

// Begin begins to look for what is in the directory, and after what nobody asks for. It may be called again, without effect.
func (c *Cache) Begin() {
	c.begun.Do(func() { c.routines.Go(c.keep) })
}

// check looks for what cannot be.
func check(config *Config) error {
	if config.MaxBytes < 0 || config.MemoryBytes < 0 || config.Inactive < 0 || config.MinFree < 0 {
		return fmt.Errorf("cache %q: sizes and times cannot be below zero", config.Name)
	}
	if len(config.Levels) > maxLevels {
		return fmt.Errorf("cache %q: %d levels of directories, want at most %d", config.Name, len(config.Levels), maxLevels)
	}
	for _, n := range config.Levels {
		if n != 1 && n != 2 {
			return fmt.Errorf("cache %q: a level of %d characters, want 1 or 2", config.Name, n)
		}
	}
	return nil
}

// Resize changes the cache's bounds: those of bytes and times. It is for a Config whose Name, Dir and Levels are the same.
func (c *Cache) Resize(config Config) {
	memory, all := orDefault(config.MemoryBytes, DefaultMemory), orDefault(config.MaxBytes, DefaultBytes)
	if c.disk == nil {
		memory = min(memory, all)
	} else {
		c.disk.free.Store(config.MinFree)
	}
	c.most.Store(min(memory/perBody, mostInMemory(c.disk != nil)))
	c.index.maxMemory.Store(memory)
	c.index.leases.maxRead.Store(memory / readPart)
	c.index.maxDisk.Store(all)
	c.inactive.Store(int64(orDefault(config.Inactive, DefaultInactive)))
	c.index.evict()
}

func mostInMemory(otherwiseOnDisk bool) int64 {
	if otherwiseOnDisk {
		return smallBody
	}
	return largeBody
}

// Close gives up what is on its way in, and closes the directory. What is being sent may go on.
func (c *Cache) Close() {
	c.closed.Do(func() {
		c.close()
		c.routines.Wait()
		if c.disk != nil {
			c.disk.close()
		}
	})
}

// Query is a request, as the cache sees it.
type Query struct {
	Context context.Context // the request's
	Method  string
	Header  http.Header // the request's: it is only read
	// HasBody says that the origin gets a body of the client's that the key does not have: the response is not stored.
	HasBody bool
	// Key is what answers are kept by. Requests with the same key get the same answers, but for what Vary says.
	Key   string
	Rules *Rules
	// Skip has the request not be answered by what is kept, NoStore the answer not be kept.
	Skip, NoStore bool
	// Refuses, unless it is nil, has an answer not be kept for which it returns true. It is called while the request waits: with it
	// nothing is updated behind a request's back.
	Refuses func(*http.Response) bool
	// KeyedByAuthorization says that the key tells apart all values of Authorization that the origin gets, so that responses to
	// requests with one may be stored.
	KeyedByAuthorization bool
}

// Error is why there is no answer: an error of the origin, or of the request's context.
type Error struct {
	State State // in which the cache was when the origin was asked
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Answer answers a request from the cache or by the origin. Its errors are of type *Error; they have had no effect on others' requests.
func (c *Cache) Respond(q Query, origin Origin) (*Response, error) {
	s := session{c: c, q: q, fields: fields{origin: origin}, why: "bypass", rules: q.Rules, origin: origin}
	a, err := s.answer()
	if err != nil {
		return nil, &Error{s.state, err}
	}
	return a, nil
}

// lookup finds what is kept for a request. What it reads of the disk for that stays in memory if there is room.
func (c *Cache) lookup(id keyID, key string, request *fields, now time.Time) (*entry, *stored) {
	e, s, unread := c.index.find(id, key, request, now)
	for _, u := range unread {
		if read := c.read(u, key, request, now); read != nil && (s == nil || read.life.received.After(s.life.received)) {
			e, s = u, read
		}
	}
	return e, s
}

// read reads an entry's file: nil if it is not what a request is meant by. One that cannot be read is forgotten, unless there was no descriptor
// to read it with.
func (c *Cache) read(e *entry, key string, request *fields, now time.Time) *stored {
	f := c.index.fileOf(e)
	if f == nil {
		return nil
	}
	s, err := c.disk.read(f, c.most.Load())
	switch {
	case err != nil && !outOfDescriptors(err), err == nil && identify(s.key) != e.id:
		c.index.drop(e)
		return nil
	case err != nil:
		return nil
	}
	meant := s.key == key && chosen(s.choices, request)
	c.index.attach(e, s, meant, now)
	if !meant {
		return nil
	}
	return s
}

// Purge forgets all answers of a key, and returns how many there were.
func (c *Cache) Purge(key string) int {
	return c.forget(identify(key)) + c.forget(identify(key+headSuffix))
}

// forget forgets what is kept of a key, and what is on its way in.
func (c *Cache) forget(id keyID) int {
	c.changes.of(id).Add(1)
	c.search.forget(id)
	return c.index.dropKey(id)
}

// PurgePrefix forgets all answers whose key begins with prefix, which are all if it is empty, and returns how many there were. Keys of which
// only the file is known are read from it, which may take long, and so may finding the files after a start. There is one of these at a
// time; others wait.
func (c *Cache) PurgePrefix(prefix string) int {
	<-c.search.done
	c.purging.Lock()
	defer c.purging.Unlock()
	c.purges.Add(1)
	if prefix == "" {
		return c.index.each(func(*entry) bool { return true })
	}
	var unread []*entry
	n := c.index.each(func(e *entry) bool {
		if e.stored == nil {
			unread = append(unread, e) // it may be read meanwhile, and is looked at in any case
			return false
		}
		return strings.HasPrefix(e.stored.key, prefix)
	})
	for _, e := range unread {
		f := c.index.fileOf(e)
		if f == nil {
			continue
		}
		if s, err := c.disk.head(f); err != nil || strings.HasPrefix(s.key, prefix) {
			c.index.drop(e)
			if err == nil {
				n++
			}
		}
	}
	return n
}

// Len is how many answers are kept, and how many bytes they take in memory and on disk.
func (c *Cache) Len() (answers, memory, disk int64) {
	return c.index.entries.Load(), c.index.memory.Load(), c.index.disk.Load()
}

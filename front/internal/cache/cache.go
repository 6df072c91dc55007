package cache

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Cache stores responses. It is safe for concurrent use. Open makes one, and Close must be called.
type Cache struct {
	name     string
	errors   *log.Logger
	inactive atomic.Int64
	most     atomic.Int64 // bytes of a body in memory
	index    index
	disk     *disk // nil without a directory

	changes     changes
	uncacheable marks
	uses        uses
	pieces      sync.Pool // of *[sendPiece]byte

	pending  atomic.Int64 // bytes in memory of responses on their way in, and of their readers
	fills    atomic.Int64 // responses on their way in
	behind   atomic.Int64 // background updates
	waiting  atomic.Int64 // requests that wait for a flight
	closing  context.Context
	close    context.CancelFunc
	begun    sync.Once
	closed   sync.Once
	routines sync.WaitGroup
}

// Open makes a cache that does not touch the files in its directory before Begin: another process
// may still use them. The cache logs to errors the panics of origins that no request's server sees;
// nil is package log's default.
func Open(config conf.Cache, errors *log.Logger) (*Cache, error) {
	if err := check(&config); err != nil {
		return nil, err
	}
	c := &Cache{name: config.Name, errors: errors}
	if c.errors == nil {
		c.errors = log.Default()
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.index.init()
	c.index.discard = func(f *file) { c.disk.remove(f) }
	if config.Dir != "" {
		d, err := openDisk(config.Dir, config.Levels, config.MinFree,
			func(text string) { c.errors.Printf("cache %s: %s", c.name, text) })
		if err != nil {
			return nil, fmt.Errorf("cache %q: %w", config.Name, err)
		}
		c.disk = d
		d.makeRoom = func() { c.index.evictFiles(makeRoom) }
	}
	c.Resize(config)
	return c, nil
}

// Begin starts to read the directory and to remove inactive entries. Further calls have no effect.
func (c *Cache) Begin() {
	c.begun.Do(func() { c.routines.Go(c.keep) })
}

func check(config *conf.Cache) error {
	if config.MaxBytes < 0 || config.MemoryBytes < 0 || config.Inactive < 0 || config.MinFree < 0 {
		return fmt.Errorf("cache %q: sizes and times must not be negative", config.Name)
	}
	if len(config.Levels) > maxLevels {
		return fmt.Errorf("cache %q: %d levels of directories; the maximum is %d", config.Name, len(config.Levels),
			maxLevels)
	}
	for _, n := range config.Levels {
		if n != 1 && n != 2 {
			return fmt.Errorf("cache %q: invalid level of %d characters (want 1 or 2)", config.Name, n)
		}
	}
	return nil
}

const (
	// defaultBytes is the default of conf.Cache.MaxBytes, and defaultMemory that of MemoryBytes.
	defaultBytes, defaultMemory = 1 << 30, 64 << 20
)

// Resize changes the limits of bytes and times. Name, Dir and Levels of config must be the same as
// before.
func (c *Cache) Resize(config conf.Cache) {
	memory, all := cmp.Or(config.MemoryBytes, defaultMemory), cmp.Or(config.MaxBytes, defaultBytes)
	largest := int64(smallBody)
	if c.disk == nil {
		memory, largest = min(memory, all), largeBody
	} else {
		c.disk.free.Store(config.MinFree)
	}
	c.most.Store(min(memory/perBody, largest))
	c.index.maxMemory.Store(memory)
	c.index.leases.maxRead.Store(memory / readPart)
	c.index.maxDisk.Store(all)
	c.inactive.Store(int64(cmp.Or(config.Inactive, defaultInactive)))
	c.index.evict()
}

// Close cancels what is on its way in. Responses that are being sent may finish.
func (c *Cache) Close() {
	c.closed.Do(func() {
		c.close()
		c.routines.Wait()
	})
}

// Query is a client's request as the cache sees it.
type Query struct {
	Context context.Context // of the request
	Method  string
	Header  http.Header // of the request; read only
	Origin  Origin
	// HasBody reports that the origin receives a body from the client, which the key does not
	// contain. The response is not stored.
	HasBody bool
	// Key identifies the response. Requests with the same key receive the same response, except for
	// Vary.
	Key   string
	Rules *Rules
	// Skip ignores stored responses: proxy_cache_bypass. NoStore prevents storing: proxy_no_cache.
	Skip, NoStore bool
	// Rejects, if not nil, prevents storing a response for which it returns true. It is called
	// while the request waits: with it, there is no background update.
	Rejects func(*http.Response) bool
	// IsPart, if not nil, reports whether a response with status 206 is the part that the key
	// stands for: only such ones are stored. It may be called after the request has ended.
	IsPart func(*http.Response) bool
	// IsStreamed, if not nil, reports whether a response is passed on as it arrives. As in nginx
	// it is not stored, and no other request waits for it. It may be called after the request has
	// ended.
	IsStreamed func(http.Header) bool
	// PassesRange reports that the request names a range, and is sent to the origin as it is
	// unless a response is stored.
	PassesRange bool
	// KeyedByAuthorization reports that the key contains the Authorization that the origin
	// receives. Then responses to requests with that field may be stored.
	KeyedByAuthorization bool
}

// lookup finds the stored response for a request. Entries that it reads from disk stay in memory if
// there is room.
func (c *Cache) lookup(id keyID, key string, request Fields, now time.Time) (*entry, *stored) {
	e, s, unread := c.index.find(id, key, request, now)
	for _, u := range unread {
		if read := c.read(u, key, request, now); read != nil &&
			(s == nil || read.life.received.After(s.life.received)) {
			e, s = u, read
		}
	}
	return e, s
}

// read reads an entry's file. It returns nil if the response does not match the request. It drops
// an unreadable entry, unless the process is out of file descriptors.
func (c *Cache) read(e *entry, key string, request Fields, now time.Time) *stored {
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
	matches := s.key == key && !slices.ContainsFunc(s.choices, func(c choice) bool {
		return valueOf(request, c.name) != c.value
	})
	c.index.attach(e, s, matches, now)
	if !matches {
		return nil
	}
	return s
}

// Purge removes all responses of a key, and returns their number.
func (c *Cache) Purge(key string) int {
	return c.forget(identify(key)) + c.forget(identify(key+headSuffix))
}

// forget removes the responses of a key, and invalidates those on their way in.
func (c *Cache) forget(id keyID) int {
	c.changes.of(id).Add(1)
	return c.index.dropKey(id)
}

// Len returns the number of stored responses, and the bytes that they use in memory and on disk.
func (c *Cache) Len() (responses, memory, disk int64) {
	return c.index.entries.Load(), c.index.memory.Load(), c.index.disk.Load()
}

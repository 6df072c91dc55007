package cache

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// keep reads the directory, and then removes inactive entries until the cache is closed.
func (c *Cache) keep() {
	if c.disk != nil {
		c.findFiles()
	}
	c.search.end()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.closing.Done():
			return
		case now := <-ticker.C:
			c.index.sweep(now.Add(-time.Duration(c.inactive.Load())))
		}
	}
}

// search is the search for the files of an earlier run. It remembers the keys that were purged
// meanwhile: their files may not have been found yet.
type search struct {
	mu        sync.Mutex
	forgotten map[keyID]bool // nil after the search
}

func (s *search) begin() { s.forgotten = make(map[keyID]bool) }

func (s *search) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = nil
}

// forget marks a key: its files that are found from now on are removed.
func (s *search) forget(id keyID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten != nil && len(s.forgotten) < maxForgotten {
		s.forgotten[id] = true
	}
}

// forgot reports whether a key was purged. It also returns true if too many keys were.
func (s *search) forgot(id keyID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten[id] || len(s.forgotten) == maxForgotten
}

// findFiles adds the files of an earlier run to the index. They are read when they are requested.
// Unfinished files are removed, and files of other programs are left alone.
func (c *Cache) findFiles() {
	now := time.Now()
	_ = fs.WalkDir(c.disk.root().FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case c.closing.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return nil //nolint:nilerr // unreadable files are ignored
		case d.IsDir():
			if strings.Count(name, "/") > maxLevels {
				return fs.SkipDir
			}
			return nil
		}
		c.found(name, d, now)
		return nil
	})
}

func (c *Cache) found(name string, d fs.DirEntry, now time.Time) {
	dir, base := path.Split(name)
	id, ok := idOf(base)
	if !ok || !d.Type().IsRegular() || strings.HasPrefix(base, c.disk.run) {
		return
	}
	info, err := d.Info()
	if err != nil {
		return
	}
	f := &file{name: name, charge: max(info.Size(), minCharge)}
	if path.Clean(dir) != path.Clean(c.disk.dirOf(base)) { // a draft, or from other levels
		c.disk.remove(f)
		return
	}
	c.index.addFound(id, f, now, func() bool { return !c.search.forgot(id) })
}

// outOfDescriptors reports whether a file could not be opened for a temporary reason.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

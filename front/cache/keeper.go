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

// keep looks after the cache until it is closed: first for what is in its directory, and then for what nobody asks for.
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

// search is the search for the files of an earlier run. What is forgotten meanwhile may be in one that has not been found yet.
type search struct {
	done chan struct{} // closed when there are no more

	mu        sync.Mutex
	forgotten map[keyID]bool
}

func (s *search) begin() { s.done, s.forgotten = make(chan struct{}), make(map[keyID]bool) }

func (s *search) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = nil
	close(s.done)
}

// forget has a key's files be removed that are found from now on.
func (s *search) forget(id keyID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten != nil && len(s.forgotten) < maxForgotten {
		s.forgotten[id] = true
	}
}

// forgot reports whether a key was, or so many were that nobody knows.
func (s *search) forgot(id keyID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten[id] || len(s.forgotten) == maxForgotten
}

// findFiles puts the files of an earlier run into the index. What they say is not looked at before it is asked for. What was never
// finished is removed, and files that are not ours are left alone.
func (c *Cache) findFiles() {
	now := time.Now()
	_ = fs.WalkDir(c.disk.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case c.closing.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is not there
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
	if path.Clean(dir) != path.Clean(c.disk.dirOf(base)) { // a draft, or of other levels
		c.disk.remove(f)
		return
	}
	c.index.addFound(id, f, now, func() bool { return !c.search.forgot(id) })
}

// outOfDescriptors reports whether a file could not be opened for a reason that passes.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

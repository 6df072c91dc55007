package cache

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// keep reads the directory, and then removes inactive entries until the cache is closed.
func (c *Cache) keep() {
	if c.disk != nil {
		c.findFiles()
	}
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

// findFiles adds the files of an earlier run to the index. They are read when they are requested.
// Unfinished files are removed, and files of other programs are left alone.
func (c *Cache) findFiles() {
	now := time.Now()
	_ = fs.WalkDir(os.DirFS(c.disk.path), ".", func(name string, d fs.DirEntry, err error) error {
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
	c.index.addFound(id, f, now, func() bool { return c.changes.of(id).Load() == 0 }) // it was not purged
}

// outOfDescriptors reports whether a file could not be opened for a temporary reason.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

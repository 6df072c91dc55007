package cache

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func openFolder(path string) (*os.Root, error) {
	if err := MakeDir(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if err = makeDrafts(root); err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}

// makeDrafts makes the directory of drafts, unless it exists.
func makeDrafts(root *os.Root) error {
	err := root.Mkdir(drafts, dirMode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// leadsTo reports whether a path leads to an open directory.
func leadsTo(path string, root *os.Root) bool {
	found, err := os.Stat(path)
	if err != nil {
		return false
	}
	open, err := root.Stat(".")
	return err == nil && os.SameFile(found, open)
}

// root returns the directory that is open now. After renew it is empty, and files that were found
// or written before do not exist.
func (d *disk) root() *os.Root { return d.folder.Load() }

// renew makes sure that files can be created, after another program has emptied the directory, or
// has removed it, or has put another one in its place.
func (d *disk) renew() error {
	d.renewing.Lock()
	defer d.renewing.Unlock()
	old := d.root()
	if leadsTo(d.path, old) {
		return makeDrafts(old)
	}
	next, err := openFolder(d.path)
	if err != nil {
		return err
	}
	d.folder.Store(next)
	_ = old.Close()
	return nil
}

// diskErrors logs when responses cannot be written to the disk any more, and when they can be
// again.
type diskErrors struct {
	print   func(text string)
	failing atomic.Bool // and the log says so

	mu   sync.Mutex
	last time.Time // of the last line about a failure
}

// failed returns err, after it has logged it.
func (e *diskErrors) failed(err error) error {
	if e.failing.Load() || errors.Is(err, errFull) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); e.last.IsZero() || now.Sub(e.last) >= reportEvery {
		e.last = now
		e.failing.Store(true)
		e.print(fmt.Sprintf("cannot write responses to the disk, they are kept in memory at most: %v", err))
	}
	return err
}

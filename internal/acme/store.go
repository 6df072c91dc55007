package acme

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/safefile"
)

const (
	// maxFile limits the size of a file that is read.
	maxFile = 1 << 20
	// fileMode and dirMode keep keys from other users.
	fileMode = 0o600
	dirMode  = 0o700
)

// errLocked reports that another process, or another certificate of this one, holds a lock.
var errLocked = errors.New("another process is ordering it")

// store keeps the files of an issuer in a directory, by name.
type store struct {
	dir string
	// fault is called before each change of a file, and makes it fail if it returns an error. It is
	// nil except in tests.
	fault func() error
	slots chan struct{} // has an element for each order in progress
}

func newStore(dir string) *store { return &store{dir: dir, slots: make(chan struct{}, maxOrders)} }

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// read returns the content of a file, or an error that is fs.ErrNotExist.
func (s *store) read(name string) ([]byte, error) {
	f, _, err := safefile.OpenFile(s.path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: larger than %d bytes", s.path(name), maxFile)
	}
	return b, err
}

// write replaces a file atomically. When it returns nil the content survives a loss of power.
func (s *store) write(name string, content []byte) error {
	// The name is fixed, since writers hold a lock: the file that a killed process left is
	// replaced.
	temporary := s.path("." + name + ".new")
	var f *os.File
	for _, step := range []func() error{
		func() (err error) { f, err = createNew(temporary); return err },
		func() error { _, err := f.Write(content); return err },
		func() error { return errors.Join(f.Sync(), f.Close()) },
		func() error { return os.Rename(temporary, s.path(name)) },
		func() error { return syncDirectory(s.dir) }, // so that its names survive a loss of power
	} {
		if err := s.change(step); err != nil {
			if f != nil {
				f.Close()
			}
			os.Remove(temporary)
			return err
		}
	}
	return nil
}

// createNew creates a file. An old one may belong to a user, or have a mode, that would reveal
// keys.
func createNew(path string) (*os.File, error) {
	if err := safefile.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, how, err := safefile.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err == nil && !how.Created {
		f.Close()
		err = &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return f, err
}

// remove removes a file. It is not an error if there is none.
func (s *store) remove(name string) error {
	err := s.change(func() error { return os.Remove(s.path(name)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// change makes a change of a file.
func (s *store) change(step func() error) error {
	if s.fault != nil {
		if err := s.fault(); err != nil {
			return err
		}
	}
	return step()
}

// lock locks a name until unlock is called. It does not wait: if the name is locked, the error is
// errLocked. The kernel releases the lock of a process that ends.
func (s *store) lock(name string) (unlock func(), err error) {
	f, _, err := safefile.OpenFile(s.path(name+".lock"), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// check returns an error if the process may not write to the directory of an issuer.
func (s *store) check(ic *conf.Issuer) error {
	if err := safefile.CheckWritable(s.dir); err != nil {
		return fmt.Errorf("%s: state_path: %w (make the serving user the owner of it and of all its files)",
			positionOf(ic), err)
	}
	return nil
}

// checkContent returns an error if a directory has files that are not a store's. It would be that
// of another program, or of the system, and become the serving user's.
func checkContent(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		switch filepath.Ext(strings.TrimSuffix(e.Name(), ".new")) {
		case ".key", ".json", ".pem", ".lock":
			if e.Type().IsRegular() {
				continue
			}
		}
		return fmt.Errorf("%s has other files, such as %q (choose a folder of its own: it becomes the serving user's)",
			dir, e.Name())
	}
	return nil
}

// prepare creates the directory. If the process is root and will become another user, that user
// owns it.
func (s *store) prepare(uid int) error {
	var err error
	if uid >= 0 {
		if err := checkContent(s.dir); err != nil {
			return err
		}
		err = safefile.GiveDir(s.dir, dirMode, uid)
	} else if err = os.Mkdir(s.dir, dirMode); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	return checkPrivate(s.dir, uid)
}

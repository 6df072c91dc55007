// Package anchor names files so that they can be opened again later, when their paths lead elsewhere or nowhere:
// by a directory that is kept open, and a name in it. A process that has changed its root
// rotates its logs and reads its renewed certificates that way.
package anchor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

var errClosed = errors.New("its directory is not open any more")

// A File is a file in a directory that is kept open. It need not exist.
type File struct {
	mu    sync.RWMutex // Close waits for Open
	path  string       // absolute
	dir   *os.File
	roots []*os.File // the directories whose files may be opened: dir, and the one a link leads to
}

// New opens path's directory, and, if path is a symbolic link, that of the file to which it leads.
// Relative links are followed by Open; absolute ones lead elsewhere after a change of the root.
func New(path string) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	if f.dir, err = os.Open(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f.roots = []*os.File{f.dir}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && filepath.Dir(target) == filepath.Dir(path) {
		return f, nil
	}
	if err == nil {
		var dir *os.File
		if dir, err = os.Open(filepath.Dir(target)); err == nil {
			f.roots = append(f.roots, dir)
			return f, nil
		}
	}
	f.Close()
	return nil, err
}

// Dirs are the directories that are open for the file's sake. They stay the File's.
func (f *File) Dirs() []*os.File { return f.roots }

// Open opens the file as os.OpenFile does. To write it as root no link is followed that others may have made: see package safefile.
func (f *File) Open(flag int, perm fs.FileMode) (*os.File, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.roots == nil {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: errClosed}
	}
	return f.open(flag, perm)
}

// Read returns what the file holds, if that is no more than limit bytes.
func (f *File) Read(limit int64) ([]byte, error) {
	file, err := f.Open(os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", f.path, limit)
	}
	return b, err
}

// Close closes the directories. The file cannot be opened any more.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range f.roots {
		dir.Close()
	}
	f.roots = nil
}

// String is the file's path when it was named.
func (f *File) String() string { return f.path }

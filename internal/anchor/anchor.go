// Package anchor keeps files accessible after a change of the process's root directory: by an open
// directory, and a name in it. With it, such a process reopens its logs and reads renewed
// certificates.
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

var errClosed = errors.New("the directory has been closed")

// A File is a file in a directory that is kept open. The file need not exist.
type File struct {
	mu   sync.RWMutex // Close waits for Open
	path string       // absolute
	dir  *os.File
	// directories whose files may be opened: dir, and the target's if path is a link
	roots []*os.File
}

// New opens the directory of path. If path is a symbolic link, New also opens the directory of the
// link's target. Open follows relative links; after a change of the root, absolute links have other
// targets.
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

// Dirs returns the open directories. The File owns them.
func (f *File) Dirs() []*os.File { return f.roots }

// Open opens the file as os.OpenFile does. If root opens it for writing, Open does not follow links
// that other users may have made: see package safefile.
func (f *File) Open(flag int, perm fs.FileMode) (*os.File, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.roots == nil {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: errClosed}
	}
	return f.open(flag, perm)
}

// Read returns the content of the file. It fails if that exceeds limit bytes.
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

// Close closes the directories. After that, Open fails.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range f.roots {
		dir.Close()
	}
	f.roots = nil
}

// String returns the path that was passed to New, as an absolute path.
func (f *File) String() string { return f.path }

//go:build !linux

package files

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	openFlags = os.O_RDONLY | syscall.O_NONBLOCK
	statFlags = openFlags
)

func (t *rootTree) open(name string) (*os.File, error) {
	if t.noLinks {
		return nil, errLink
	}
	return openRegular(t.root.Stat, t.root.OpenFile, cmp.Or(name, "."))
}

func (t *rootTree) stamp(name string, _ bool) (stamp, bool) { return stampIf(t.stat(name)), false }

func openPath(path string) (*os.File, error) { return openRegular(os.Stat, os.OpenFile, path) }

func (t *pathTree) stamp(name string, _ bool) (stamp, bool) { return stampIf(t.stat(name)), false }

// openRegular opens a regular file or a directory. Opening anything else might block. Another
// process could replace the file by a pipe after the check; the nonblock flag covers that on
// systems that have it.
func openRegular(stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error),
	name string) (*os.File, error) {
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errIrregular
	}
	return open(name, openFlags, 0)
}

// walk is never called here: newPathTree rejects what would require it.
func (t *pathTree) walk(string, string, int) (*os.File, error) {
	return nil, errors.New("files: BUG: symbolic links cannot be checked on this system")
}

//go:build !linux

package files

import (
	"errors"
	"os"
	"syscall"
)

// openPath opens a regular file or a directory. Opening anything else might block.
func openPath(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errIrregular
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// openChecked is never called here: newPathTree rejects what would require it.
func (t *pathTree) openChecked(string, string) (*os.File, error) { return nil, errUnchecked }

func (t *pathTree) statChecked(string, string) (os.FileInfo, error) { return nil, errUnchecked }

var errUnchecked = errors.New("files: BUG: symbolic links cannot be checked on this system")

type statPath struct{ text string }

func newStatPath(path string) statPath { return statPath{path} }

func (p statPath) stamp() (stamp, error) {
	info, err := os.Stat(p.text)
	if err != nil {
		return stamp{}, err
	}
	return newStamp(info), nil
}

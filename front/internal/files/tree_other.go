//go:build !linux

package files

import (
	"os"
	"syscall"
)

// openAny opens a regular file or a directory. Opening anything else might block. Another process
// could replace the file by a pipe after the check; the nonblock flag covers that on systems that
// have it.
func (t *tree) openAny(name string) (f *os.File, plain bool, err error) {
	info, err := t.root.Stat(name)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, false, errIrregular
	}
	f, err = t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return f, false, err
}

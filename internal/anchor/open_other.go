//go:build !unix

package anchor

import (
	"io/fs"
	"os"
)

// open uses the path, because processes on this system do not change their root.
func (f *File) open(flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(f.path, flag, perm)
}

//go:build !unix

package anchor

import (
	"io/fs"
	"os"
)

// open goes by the path: no process changes its root here.
func (f *File) open(flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(f.path, flag, perm)
}

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Folder is a folder for the results of a run. The zero value has no folder.
type Folder struct {
	Path string

	isNew bool // this process made it
	isOwn bool // it is in root/results
}

// newFolder makes a results folder: out, or if that is empty a new folder in root/results whose
// name is the time. A number is added if that folder exists.
func newFolder(root, out string, started time.Time) (Folder, error) {
	if out != "" {
		_, err := os.Stat(out)
		return Folder{Path: out, isNew: errors.Is(err, fs.ErrNotExist)}, os.MkdirAll(out, 0o755)
	}
	const attempts = 1000
	base := filepath.Join(root, "results", started.Format("2006-01-02T15-04-05"))
	dir := base
	for n := 2; ; n++ {
		if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
			return Folder{}, err
		}
		err := os.Mkdir(dir, 0o755)
		switch {
		case err == nil:
			return Folder{Path: dir, isNew: true, isOwn: true}, nil
		case errors.Is(err, os.ErrExist):
			dir = fmt.Sprintf("%s-%d", base, n)
		case !errors.Is(err, os.ErrNotExist) || n > attempts: // another run may remove an empty folder
			return Folder{}, err
		}
	}
}

// Discard removes the folder of a run that measured nothing, if the run made it. Folders with files
// remain, and so does a symbolic link in place of root/results, which os.Remove would remove
// whatever its folder contains.
func (f Folder) Discard() {
	if f.isNew {
		_ = unix.Rmdir(f.Path)
	}
	if f.isOwn {
		_ = unix.Rmdir(filepath.Dir(f.Path))
	}
}

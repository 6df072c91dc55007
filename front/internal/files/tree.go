package files

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"syscall"
)

// tree finds the files of a directory by their names. "" is the directory itself.
type tree interface {
	// open opens a file of any type.
	open(name string) (*os.File, error)
	// stat describes a file, without opening it if possible.
	stat(name string) (fs.FileInfo, error)
	// stamp returns the stamp of what stat describes, or zero if stat fails. If it isPlain, a change
	// of it is a change in its directory, or in one above. isWatched reports that these have no links
	// and are watched.
	stamp(name string, isWatched bool) (s stamp, isPlain bool)
	close()
}

func newTree(c Config) (tree, error) {
	if c.ByPath {
		return newPathTree(c)
	}
	return newRootTree(c)
}

type openedFile struct {
	*os.File
	info  fs.FileInfo
	stamp stamp
}

// errLink reports a symbolic link that must not be followed.
var errLink = errors.New("path contains a symbolic link")

// errIrregular reports a device, a pipe or a socket.
var errIrregular = errors.New("neither a regular file nor a directory")

// open opens a regular file or a directory.
func (h *Handler) open(name string) (o openedFile, err error) {
	if o.File, err = h.tree.open(name); err != nil {
		return o, err
	}
	if o.info, err = o.Stat(); err == nil && !o.info.Mode().IsRegular() && !o.info.IsDir() {
		err = errIrregular
	}
	if err != nil {
		_ = o.Close()
		return openedFile{}, err
	}
	o.stamp = newStamp(o.info)
	return o, nil
}

// statusOf returns the status for an error of opening or reading a file. os.Root has no exported
// error for a path that leads out of the root.
func statusOf(err error) int {
	var number syscall.Errno
	switch {
	case errors.Is(err, errIrregular), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errLink):
		return http.StatusForbidden
	case errors.Is(err, fs.ErrClosed):
		return http.StatusServiceUnavailable
	case !errors.As(err, &number):
		return http.StatusNotFound
	}
	switch number {
	case syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.ENXIO, syscall.ENODEV, syscall.EINVAL,
		syscall.EXDEV:
		return http.StatusNotFound
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

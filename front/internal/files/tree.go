package files

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"syscall"
)

// tree opens files below the root. No name leads out of it, and no link does unless files are found
// by path.
type tree struct {
	// finds files by path; nil if the root is opened once: then the following fields are used
	paths *pathTree

	root *os.Root
	owns bool // tree closes root
	top  *os.File
	raw  syscall.RawConn // of top

	noLinks bool // nothing behind symbolic links is opened
}

type openedFile struct {
	*os.File
	name  string
	info  fs.FileInfo
	stamp stamp
	plain bool // no symbolic link led to it
}

// errLink reports a symbolic link that must not be followed.
var errLink = errors.New("path contains a symbolic link")

// errIrregular reports a device, a pipe or a socket.
var errIrregular = errors.New("neither a regular file nor a directory")

func newTree(c Config) (t *tree, err error) {
	if c.ByPath {
		paths, err := newPathTree(c)
		return &tree{paths: paths}, err
	}
	t = &tree{root: c.Root, noLinks: c.NoSymlinks}
	if t.root == nil {
		if t.root, err = os.OpenRoot(c.Dir); err != nil {
			return nil, err
		}
		t.owns = true
	}
	if t.top, err = t.root.Open("."); err == nil {
		t.raw, err = t.top.SyscallConn()
	}
	if err == nil && t.noLinks {
		err = t.knowsLinks()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// knowsLinks returns an error if the system cannot detect symbolic links in paths.
func (t *tree) knowsLinks() error {
	f, plain, err := t.openAny(".")
	if err != nil {
		return err
	}
	_ = f.Close()
	if !plain {
		return errors.New("files: NoSymlinks requires Linux 5.6")
	}
	return nil
}

func (t *tree) close() {
	if t.top != nil {
		_ = t.top.Close()
	}
	if t.owns {
		_ = t.root.Close()
	}
}

// open opens a regular file or a directory below the root; "" is the root itself.
func (t *tree) open(name string) (o openedFile, err error) {
	o = openedFile{name: name}
	switch {
	case t.paths != nil:
		o.File, err = t.paths.open(name)
	case name == "":
		o.name = "."
		fallthrough
	default:
		o.File, o.plain, err = t.openAny(o.name)
	}
	if t.noLinks && !o.plain { // also hides whether the file exists
		if err == nil {
			_ = o.Close()
		}
		return o, errLink
	}
	if err != nil {
		return o, err
	}
	if o.info, err = o.Stat(); err == nil && !o.info.Mode().IsRegular() && !o.info.IsDir() {
		err = errIrregular
	}
	if err != nil {
		_ = o.Close()
		return o, err
	}
	o.stamp = newStamp(o.info)
	return o, nil
}

// stat describes a name, without opening it if possible.
func (t *tree) stat(name string) (fs.FileInfo, error) {
	if t.paths != nil {
		return t.paths.stat(name)
	}
	return t.root.Stat(name)
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

package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxUnused is how long a folder of the cache may be unused before a later call of Unpack removes
// it.
const maxUnused = 30 * 24 * time.Hour

// Unpacked is a project in the user's cache. It is not removed while it is open: until Close, or
// the end of the process.
type Unpacked struct {
	Root string
	fd   int // has a shared lock; no os.File, which closes itself when it is collected
}

// Close allows other processes to remove the folder when it has been unused for long.
func (u *Unpacked) Close() error { return os.NewSyscallError("close", unix.Close(u.fd)) }

// open locks an unpacked project and marks it as used now. If it is removed meanwhile, the error is
// fs.ErrNotExist.
func open(root string) (u *Unpacked, err error) {
	fd, err := openLocked(root, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(root, now, now) // it may belong to another user, who may remove it
	if !isAt(root, fd) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Unpacked{Root: root, fd: fd}, nil
}

// openLocked opens a folder and locks it. Where the file system has no locks, only exclusive ones
// fail, so that no folder is removed.
func openLocked(dir string, how int) (fd int, err error) {
	if fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return 0, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(fd, how)
	}
	if err != nil && how != unix.LOCK_SH {
		return 0, errors.Join(&os.PathError{Op: "flock", Path: dir, Err: err}, unix.Close(fd))
	}
	return fd, nil
}

// isAt reports whether an open folder still has this name.
func isAt(name string, fd int) bool {
	var own, now unix.Stat_t
	return unix.Fstat(fd, &own) == nil && unix.Stat(name, &now) == nil && own.Dev == now.Dev && own.Ino == now.Ino
}

// removeUnused removes folders that no process has used for maxUnused. A folder that cannot be
// removed does no harm, so it is no error.
func removeUnused(cache string) {
	found, _ := os.ReadDir(cache)
	for _, f := range found {
		isOurs := strings.HasPrefix(f.Name(), projectPrefix) || strings.HasPrefix(f.Name(), workPrefix)
		if isOurs && isUnused(filepath.Join(cache, f.Name())) {
			remove(cache, f.Name())
		}
	}
}

func isUnused(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir() && time.Since(info.ModTime()) > maxUnused
}

// remove removes a folder of the cache unless a process uses it. It renames the folder first, since
// one with the name of a project is complete.
func remove(cache, base string) {
	name := filepath.Join(cache, base)
	fd, err := openLocked(name, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !isAt(name, fd) || !isUnused(name) { // another process was faster
		return
	}
	if rest, ok := strings.CutPrefix(base, projectPrefix); ok {
		work := filepath.Join(cache, workPrefix+rest)
		if os.Rename(name, work) != nil {
			return
		}
		name = work
	}
	_ = os.RemoveAll(name)
}

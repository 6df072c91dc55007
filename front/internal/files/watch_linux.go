package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// watcher reports changes in directories by inotify.
//
// A directory is watched together with all directories above it, and only if its path has no
// symbolic link. Thus every change of the path's meaning is reported.
type watcher struct {
	tree    *tree
	dir     string // the root's path, if /proc is not available
	most    int
	changed func(dir, name string, directory bool)
	seen    atomic.Uint64 // number of events
	file    *os.File
	fd      int
	ends    sync.WaitGroup

	mu    sync.RWMutex
	dirs  map[string]int32 // by path below the root; "" is the root
	paths map[int32]string
	over  bool
}

const (
	watchedEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM |
		unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

	// eventBuffer holds many events; one with the longest name has 272 bytes.
	eventBuffer = 16 << 10
)

// newWatcher starts to watch the root. It returns nil if that is impossible, such as beyond
// fs.inotify.max_user_instances. It calls changed for each event, and with empty names if events
// were lost.
func newWatcher(t *tree, dir string, most int, changed func(dir, name string, directory bool)) *watcher {
	if most < 0 {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	if dir != "" {
		dir, _ = filepath.Abs(dir) // empty on error
	}
	w := &watcher{
		tree: t, dir: dir, most: most, changed: changed, fd: fd, file: os.NewFile(uintptr(fd), "inotify"),
		dirs: make(map[string]int32), paths: make(map[int32]string),
	}
	if !w.add("") {
		_ = w.file.Close()
		return nil
	}
	w.ends.Go(w.run)
	return w
}

func (w *watcher) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.over = true
	_ = w.file.Close()
	w.mu.Unlock()
	w.ends.Wait()
}

// events returns the number of events so far. If it has not changed, nothing else has.
func (w *watcher) events() uint64 {
	if w == nil {
		return 0
	}
	return w.seen.Load()
}

// cover watches a directory, and reports whether it is watched.
func (w *watcher) cover(dir string) bool {
	if w == nil {
		return false
	}
	w.mu.RLock()
	_, ok := w.dirs[dir]
	w.mu.RUnlock()
	if ok {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; i <= len(dir); i++ { // from the root down
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if _, ok := w.dirs[dir[:i]]; !ok && !w.add(dir[:i]) {
			return false
		}
	}
	return true
}

// add watches one directory, and reports whether that succeeds. Except in newWatcher, the caller
// holds mu.
func (w *watcher) add(dir string) bool {
	if w.over || len(w.dirs) >= w.most {
		return false
	}
	name := dir
	if name == "" {
		name = "."
	}
	fd, err := w.tree.openat2(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), watchedEvents)
	if errors.Is(err, unix.ENOENT) && w.dir != "" { // there is no /proc
		wd, err = w.addByPath(filepath.Join(w.dir, dir), fd)
	}
	if err != nil { // fs.inotify.max_user_watches may be too low
		return false
	}
	if other, ok := w.paths[int32(wd)]; ok && other != dir {
		return false // the same directory, by a mount, or by a renaming that an event will report
	}
	w.dirs[dir], w.paths[int32(wd)] = int32(wd), dir
	return true
}

// addByPath watches a path, if it leads to the open directory.
func (w *watcher) addByPath(path string, fd int) (wd int, err error) {
	if wd, err = unix.InotifyAddWatch(w.fd, path, watchedEvents|unix.IN_DONT_FOLLOW); err != nil {
		return -1, err
	}
	var there, here unix.Stat_t
	if err = errors.Join(unix.Lstat(path, &there), unix.Fstat(fd, &here)); err == nil &&
		(there.Ino != here.Ino || there.Dev != here.Dev) {
		err = fmt.Errorf("%q is another directory", path)
	}
	return wd, err
}

// run reads events until the watcher is closed.
func (w *watcher) run() {
	buffer := make([]byte, eventBuffer)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return
		}
		for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			b = b[end:]
			w.handle(wd, mask, name)
		}
	}
}

// handle removes what an event concerns. It counts the event first: a goroutine that checks files
// at this moment either sees the count, or what it stores is removed.
func (w *watcher) handle(wd int32, mask uint32, name string) {
	w.seen.Add(1)
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.changed("", "", false)
		return
	}
	w.mu.RLock()
	dir, ok := w.paths[wd]
	w.mu.RUnlock()
	switch {
	case !ok:
	case name == "": // the directory itself
		if mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_UNMOUNT|unix.IN_MOVE_SELF) != 0 &&
			(dir != "" || mask&unix.IN_IGNORED != 0) {
			w.leave(dir)
		}
		w.changed(parent(dir), base(dir), true)
	default:
		changed, directory := path.Join(dir, name), mask&unix.IN_ISDIR != 0
		if directory && mask&(unix.IN_MOVED_FROM|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_CREATE) != 0 {
			w.leave(changed)
		}
		w.changed(dir, name, directory)
	}
}

// leave stops watching a directory and all below it.
func (w *watcher) leave(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, wd := range w.dirs {
		if path == dir || dir == "" || strings.HasPrefix(path, dir+"/") {
			delete(w.dirs, path)
			delete(w.paths, wd)
			if !w.over {
				_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // the kernel may have removed it
			}
		}
	}
}

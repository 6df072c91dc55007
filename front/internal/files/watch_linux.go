package files

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watcher counts the changes in directories of a root, by inotify. While the count stays the same,
// resources in these directories need no check. It only counts: it knows neither files nor keys.
//
// A directory is watched together with all directories above it, and only if its path has no
// symbolic link. So a change of any name in its path is counted, too. A change of directories begins
// a new inotify instance without watches, because a path may lead to another directory afterwards.
type watcher struct {
	root    *rootTree
	changes atomic.Uint64 // begins at 1

	mu   sync.Mutex
	file *os.File        // of inotify; nil after close
	fd   int             // of file
	dirs map[string]bool // watched, by path below the root
}

const (
	watchedEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM |
		unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	// lostDirs are the events after which a path may lead to another directory. With IN_ISDIR, so do
	// those of the names in a directory.
	lostDirs = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED | unix.IN_Q_OVERFLOW
	nameGone = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

	maxWatches = 4096
	// eventBuffer holds many events; one with the longest name has 272 bytes.
	eventBuffer = 16 << 10
	// recountInterval is how often a change is assumed: the kernel reports none by memory maps or
	// over a network.
	recountInterval = time.Minute
)

// newWatcher returns nil if the system cannot watch directories of the tree.
func newWatcher(t tree) *watcher {
	root, ok := t.(*rootTree)
	if !ok {
		return nil
	}
	w := &watcher{root: root}
	w.changes.Store(1)
	if !w.begin() {
		return nil
	}
	go w.run(w.file)
	return w
}

// begin begins an inotify instance. It reports false beyond fs.inotify.max_user_instances.
func (w *watcher) begin() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false
	}
	w.file, w.fd, w.dirs = os.NewFile(uintptr(fd), "inotify"), fd, make(map[string]bool)
	return true
}

func (w *watcher) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}

// count returns the number of changes so far; 0 if nothing is watched. w may be nil.
func (w *watcher) count() uint64 {
	if w == nil {
		return 0
	}
	return w.changes.Load()
}

// cover watches the directories of names and returns the count; 0 if it cannot watch all of them.
func (w *watcher) cover(names []check) uint64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range names {
		dir := names[i].name[:max(0, strings.LastIndexByte(names[i].name, '/'))]
		for at := 0; !w.dirs[dir]; at++ { // from the root down
			if at < len(dir) && dir[at] != '/' {
				continue
			}
			if above := dir[:at]; !w.dirs[above] && !w.add(above) {
				return 0
			}
		}
	}
	return w.changes.Load()
}

// add watches one directory. The caller holds mu.
func (w *watcher) add(dir string) bool {
	if w.file == nil || len(w.dirs) >= maxWatches {
		return false
	}
	fd, err := w.root.openat2(cmp.Or(dir, "."), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	// fails without /proc, or beyond fs.inotify.max_user_watches
	if _, err = unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), watchedEvents); err == nil {
		w.dirs[dir] = true
	}
	return err == nil
}

// run counts until the watcher is closed.
func (w *watcher) run(file *os.File) {
	buffer := make([]byte, eventBuffer)
	for file != nil {
		_ = file.SetReadDeadline(time.Now().Add(recountInterval))
		n, err := file.Read(buffer)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if movesDirs(buffer[:n]) {
			file = w.restart()
		}
		w.changes.Add(1) // what cover has returned before is old now
		// The kernel joins equal events meanwhile. A log in the root, written to without pause, took most
		// of a CPU.
		time.Sleep(rootInterval)
	}
}

// restart begins a new inotify instance, unless the watcher is closed.
func (w *watcher) restart() *os.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	_ = w.file.Close()
	if !w.begin() {
		w.file = nil
	}
	return w.file
}

// movesDirs reports whether one of the events concerns a whole directory, or events were lost.
func movesDirs(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		if mask&lostDirs != 0 || mask&unix.IN_ISDIR != 0 && mask&nameGone != 0 {
			return true
		}
		events = events[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:])):]
	}
	return false
}

package files

import (
	"errors"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// checkInterval is how long a resource is served without another check of its path, if the Config
// has ByPath. A change becomes visible after that time at most. It is less than the time between
// two requests of a client over a network. A file with 200,000 requests a second is checked by one
// request in four.
const checkInterval = 20 * time.Microsecond

// pathTree opens files by their paths in the whole file system.
type pathTree struct {
	dir          string // the directory of names, without a final slash
	disableLinks string // DisableSymlinks
	from         string // symlinks are always followed in this prefix of paths
}

func newPathTree(c Config) (*pathTree, error) {
	if c.DisableSymlinks != "" && runtime.GOOS != "linux" {
		return nil, errors.New("files: DisableSymlinks requires Linux")
	}
	return &pathTree{dir: strings.TrimRight(c.Dir, "/"), disableLinks: c.DisableSymlinks, from: c.SymlinksFrom}, nil
}

func (t *pathTree) path(name string) string { return t.dir + "/" + name }

// open opens a file of any type. As in nginx, a cycle of links is reported as a link that is not
// followed.
func (t *pathTree) open(name string) (f *os.File, err error) {
	path := t.path(name)
	if kept, checks := t.trusted(path); checks {
		f, err = t.openChecked(kept, path[len(kept):])
	} else {
		f, err = openPath(path)
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, errLink
	}
	return f, err
}

// trusted returns the prefix of a path in which all links are followed, and whether links in the
// rest are checked. As in nginx, the prefix must end at a slash.
func (t *pathTree) trusted(path string) (kept string, checks bool) {
	if t.disableLinks == "" || t.from != "" && path == t.from {
		return path, false
	}
	rest, ok := strings.CutPrefix(path, t.from)
	switch {
	case t.from == "" || !ok:
		return "", true
	case rest[0] == '/':
		return t.from, true
	case strings.HasSuffix(t.from, "/"):
		return t.from[:len(t.from)-1], true
	}
	return "", true
}

func (t *pathTree) kind(name string) Kind {
	info, err := t.stat(name)
	switch {
	case err == nil && info.IsDir():
		return Directory
	case err == nil && info.Mode().IsRegular():
		return File
	case err != nil && statusOf(err) == http.StatusForbidden:
		return Denied
	}
	return Nothing
}

func (t *pathTree) stat(name string) (info os.FileInfo, err error) {
	path := t.path(name)
	if kept, checks := t.trusted(path); checks {
		info, err = t.statChecked(kept, path[len(kept):])
	} else {
		info, err = os.Stat(path)
	}
	if errors.Is(err, syscall.ELOOP) {
		err = errLink
	}
	return info, err
}

// Stat is os.Stat for an absolute path, with Config's DisableSymlinks and SymlinksFrom.
func Stat(path, disableSymlinks, symlinksFrom string) (os.FileInfo, error) {
	t := &pathTree{disableLinks: disableSymlinks, from: symlinksFrom}
	return t.stat(strings.TrimPrefix(path, "/"))
}

// checks are the paths that a resource depends on, with their stamps when the resource was loaded.
// The list is empty if files are not found by path.
type checks struct {
	all  []pathCheck
	last atomic.Int64 // start of the last check, in nanoseconds since the Handler was made
}

type pathCheck struct {
	name  string
	path  statPath
	stamp stamp // zero if the file did not exist
}

func (l *checks) add(t *pathTree, name string, s stamp) {
	l.all = append(l.all, pathCheck{name, newStatPath(t.path(name)), s})
}

// unchanged reports whether the paths still lead to the same files.
func (l *checks) unchanged(t *pathTree) bool {
	for i := range l.all {
		one := &l.all[i]
		now, err := stamp{}, error(nil)
		if t.disableLinks == "" {
			now, err = one.path.stamp()
		} else if info, statErr := t.stat(one.name); statErr == nil {
			now = newStamp(info)
		} else {
			err = statErr
		}
		if one.stamp == (stamp{}) {
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return false
			}
		} else if err != nil || now != one.stamp {
			return false
		}
	}
	return true
}

// now returns the nanoseconds since the Handler was made.
func (h *Handler) now() int64 { return int64(time.Since(h.began)) }

// isUnchanged reports whether a resource found by path can be served, because its paths lead to the
// same files. A file that had just been changed when it was read is read again: its times could not
// show another change.
func (h *Handler) isUnchanged(res *resource) bool {
	now := h.now()
	if now-res.checks.last.Load() < int64(checkInterval) {
		return true
	}
	if res.unripe || len(res.checks.all) == 0 || !res.checks.unchanged(h.tree.paths) {
		return false
	}
	res.checks.last.Store(now)
	return true
}

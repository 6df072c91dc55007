package files

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Symlinks says which symbolic links a Handler with Config.ByPath follows. A file behind any other link is not served: the status
// is 403 or 404.
type Symlinks int

// Values of Symlinks, which are those of nginx's disable_symlinks.
const (
	FollowLinks      Symlinks = iota // all links: off
	FollowOwnedLinks                 // links whose owner also owns what they lead to: if_not_owner
	FollowNoLinks                    // no link: on
)

// lookInterval is how long a resource is served without another look at its path, if the Config has ByPath. So a change shows at
// most this much later. A new request over a network takes longer than that, and a file that is requested 200,000 times a second is
// looked at by one request in four.
const lookInterval = 20 * time.Microsecond

// pathTree finds files by their paths in the whole file system.
type pathTree struct {
	dir      string // what names are below, without a slash at its end
	symlinks Symlinks
	from     string // the part of paths in which all links are followed
}

func newPathTree(c Config) (*pathTree, error) {
	if c.Root != nil {
		return nil, errors.New("files: ByPath goes with Dir, not with Root")
	}
	if c.Symlinks < FollowLinks || c.Symlinks > FollowNoLinks {
		return nil, fmt.Errorf("files: unknown value %d of Symlinks", c.Symlinks)
	}
	if c.Symlinks != FollowLinks && runtime.GOOS != "linux" {
		return nil, errors.New("files: symbolic links can be refused on Linux only")
	}
	return &pathTree{dir: strings.TrimRight(c.Dir, "/"), symlinks: c.Symlinks, from: c.SymlinksFrom}, nil
}

// path returns the path of a name below the directory.
func (t *pathTree) path(name string) string { return t.dir + "/" + name }

// open opens whatever there is. Links in a circle are reported as a link that is not followed, as in nginx.
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

// trusted returns the beginning of a path in which all links are followed, and whether links in the rest are checked. As in
// nginx it has a part of its own only if the path goes on with a slash behind it.
func (t *pathTree) trusted(path string) (kept string, checks bool) {
	if t.symlinks == FollowLinks || t.from != "" && path == t.from {
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

// kind looks at what a name is.
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

func (t *pathTree) stat(name string) (os.FileInfo, error) {
	path := t.path(name)
	kept, checks := t.trusted(path)
	if !checks {
		info, err := os.Stat(path)
		if errors.Is(err, syscall.ELOOP) {
			err = errLink
		}
		return info, err
	}
	info, err := t.statChecked(kept, path[len(kept):])
	if errors.Is(err, syscall.ELOOP) {
		err = errLink
	}
	return info, err
}

// looks are the paths that a resource depends on, and what they led to when it was loaded. It is empty if resources are not found
// by path.
type looks struct {
	all  []look
	last atomic.Int64 // nanoseconds since the Handler was made; when the last look began
}

// look is one of them.
type look struct {
	name  string
	path  statPath
	stamp stamp // zero if there was nothing
}

// add adds a name and its stamp.
func (l *looks) add(t *pathTree, name string, s stamp) {
	l.all = append(l.all, look{name, newStatPath(t.path(name)), s})
}

// unchanged reports whether the paths lead to what they led to.
func (l *looks) unchanged(t *pathTree) bool {
	for i := range l.all {
		one := &l.all[i]
		now, err := stamp{}, error(nil)
		if t.symlinks == FollowLinks {
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

// stillThere reports whether a resource that was found by path can be served: its paths lead to the same files. What had just
// been changed when it was read is read again, because its times cannot show another change.
func (h *Handler) stillThere(res *resource) bool {
	now := h.now()
	if now-res.looks.last.Load() < int64(lookInterval) {
		return true
	}
	if res.unripe || len(res.looks.all) == 0 || !res.looks.unchanged(h.tree.paths) {
		return false
	}
	res.looks.last.Store(now)
	return true
}

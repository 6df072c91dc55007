package files

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// pathTree finds files by their paths in the whole file system, anew each time.
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

func (t *pathTree) close() {}

// open reports a cycle of links as a link that is not followed, as nginx does.
func (t *pathTree) open(name string) (f *os.File, err error) {
	path := t.path(name)
	if kept, checks := t.trusted(path); checks {
		f, err = t.walk(kept, path[len(kept):], openFlags)
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

func (t *pathTree) stat(name string) (info os.FileInfo, err error) {
	path := t.path(name)
	if kept, checks := t.trusted(path); checks {
		var f *os.File
		if f, err = t.walk(kept, path[len(kept):], statFlags); err == nil {
			defer f.Close()
			info, err = f.Stat()
		}
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

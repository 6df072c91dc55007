package files

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// rootTree finds files below a directory that is opened once. No name and no link leads out of it.
type rootTree struct {
	root *os.Root
	owns bool // close closes root

	using sync.RWMutex // held while fd is used
	top   *os.File     // nil after close
	fd    int          // of top

	noLinks bool // nothing behind symbolic links is opened
}

func newRootTree(c Config) (t *rootTree, err error) {
	t = &rootTree{root: c.Root, noLinks: c.NoSymlinks}
	if t.root == nil {
		if t.root, err = os.OpenRoot(c.Dir); err != nil {
			return nil, err
		}
		t.owns = true
	}
	if t.top, err = t.root.Open("."); err == nil {
		t.fd = int(t.top.Fd())
	}
	if err == nil && t.noLinks {
		var f *os.File
		if f, err = t.open(""); err == nil {
			err = f.Close()
		} else if errors.Is(err, errLink) { // the system cannot detect links
			err = errors.New("files: NoSymlinks requires Linux 5.6")
		}
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *rootTree) close() {
	t.using.Lock()
	defer t.using.Unlock()
	if t.top != nil {
		_ = t.top.Close()
		t.top = nil
	}
	if t.owns {
		_ = t.root.Close()
	}
}

func (t *rootTree) stat(name string) (fs.FileInfo, error) { return t.root.Stat(cmp.Or(name, ".")) }

package front

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/files"
)

// fileRoot is a directory that files are served from. Should it not be there when the Config is compiled, requests look again.
type fileRoot struct {
	how    files.Config
	opened atomic.Pointer[files.Handler]

	mu   sync.Mutex
	next time.Time // when to look again
}

// lookAgain is how long a directory that is not there is not looked for.
const lookAgain = time.Second

func openFileRoot(how files.Config) *fileRoot {
	r := &fileRoot{how: how}
	r.get()
	return r
}

// get returns the directory's handler, nil if it is not there.
func (r *fileRoot) get() *files.Handler {
	if h := r.opened.Load(); h != nil {
		return h
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.opened.Load(); h != nil {
		return h
	}
	now := time.Now()
	if now.Before(r.next) {
		return nil
	}
	r.next = now.Add(lookAgain)
	h, err := files.New(r.how)
	if err != nil {
		return nil
	}
	r.opened.Store(h)
	return h
}

func (r *fileRoot) close() {
	if h := r.opened.Load(); h != nil {
		_ = h.Close()
	}
}

// fileRoots are directories that variables name, as they are asked for. The ones that have not been asked for the longest are given up.
type fileRoots struct {
	mu    sync.Mutex
	held  map[string]*heldRoot
	clock uint64
}

type heldRoot struct {
	handler *files.Handler
	used    uint64 // by the clock
	users   int
	dropped bool
}

// maxRoots bounds the directories of one location that are kept open. Each has a share of what one handler may hold.
const maxRoots = 32

func newFileRoots() *fileRoots { return &fileRoots{held: make(map[string]*heldRoot)} }

// fileShares is how many times what one handler of files may hold by default all of them may hold together.
const fileShares = 4

// fileLimits are those of each directory: all directories that the Config names share what there is.
func (c *compiler) fileLimits() files.Limits {
	roots := make(map[Text]bool)
	var count func(all []Location)
	count = func(all []Location) {
		for i := range all {
			roots[all[i].Files.Root], roots[all[i].Files.Alias] = true, true
			count(all[i].Locations)
		}
	}
	for i := range c.config.Hosts {
		h := &c.config.Hosts[i]
		roots[h.Defaults.Files.Root], roots[h.Defaults.Files.Alias] = true, true
		count(h.Locations)
	}
	n := 1 // a power of two, so that one more directory seldom has the others forget what they hold
	for n*fileShares < len(roots) {
		n *= 2
	}
	return shareOf(n)
}

// shareOf is what one of n handlers may hold.
func shareOf(n int) files.Limits {
	return files.Limits{
		Resources: max(files.DefaultResources/n, 64), Bytes: max(files.DefaultBytes/int64(n), 1<<20),
		Descriptors: max(files.DefaultDescriptors/n, 4), Watches: max(files.DefaultWatches/n, 16),
	}
}

// find finds where a path leads to.
func (r *fileRoots) find(f *fileSet, x *exchange, path string) (p place, ok bool) {
	dir := f.root.of(x)
	p.name = path
	if f.alias { // the whole of it: what is before the last slash is a directory
		full, ok := f.full(x, path)
		if !ok {
			return p, false
		}
		dir, p.name = splitDir(full)
	}
	if dir == "" || dir[0] != '/' {
		return p, false
	}
	held := r.take(f, dir)
	if held == nil {
		return p, false
	}
	p.in, p.done = held.handler, func() { r.giveBack(held) }
	return p, true
}

func (r *fileRoots) take(f *fileSet, dir string) *heldRoot {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[dir]
	if h == nil {
		how := f.how
		how.Dir = dir
		how.Limits = shareOf(maxRoots)
		handler, err := files.New(how)
		if err != nil {
			return nil
		}
		for len(r.held) >= maxRoots {
			r.evict()
		}
		h = &heldRoot{handler: handler}
		r.held[dir] = h
	}
	r.clock++
	h.used = r.clock
	h.users++
	return h
}

func (r *fileRoots) giveBack(h *heldRoot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.users--; h.users == 0 && h.dropped {
		_ = h.handler.Close()
	}
}

// evict gives up one. mu is held.
func (r *fileRoots) evict() {
	oldest := ""
	for dir, h := range r.held {
		if oldest == "" || h.used < r.held[oldest].used {
			oldest = dir
		}
	}
	r.drop(oldest)
}

func (r *fileRoots) drop(dir string) {
	h := r.held[dir]
	delete(r.held, dir)
	h.dropped = true
	if h.users == 0 {
		_ = h.handler.Close()
	}
}

func (r *fileRoots) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for dir := range r.held {
		r.drop(dir)
	}
}

// isFile reports whether there is a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// splitDir splits a path into its directory and what follows, with a slash.
func splitDir(path string) (dir, name string) {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i:]
		}
	}
	return "/", path
}

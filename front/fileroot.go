package front

import (
	"fmt"
	"sync"

	"github.com/tarehq/tare/front/files"
)

// fileRoots are handlers of a directory by the part of paths in which symbolic links are trusted, if that has variables. Those that
// have been unused for the longest are closed.
type fileRoots struct {
	mu    sync.Mutex
	roots map[string]*fileRoot // by the trusted part
	clock uint64
}

type fileRoot struct {
	handler *files.Handler
	used    uint64 // by the clock
	users   int
	dropped bool
}

// maxRoots bounds the handlers of one location. Each has a share of what one handler may hold.
const maxRoots = 32

func newFileRoots() *fileRoots { return &fileRoots{roots: make(map[string]*fileRoot)} }

// fileShares is how many times what one handler of files may hold by default all of them may hold together.
const fileShareCount = 4

// fileLimits are those of each directory: all directories that the Config names share what there is.
func (c *compiler) fileLimits() files.Limits {
	roots := make(map[Text]bool)
	for p := range c.config.Places() {
		roots[p.Settings.Files.Root], roots[p.Settings.Files.Alias] = true, true
	}
	n := 1 // a power of two, so that one more directory seldom has the others forget what they hold
	for n*fileShareCount < len(roots) {
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

// find completes a place with the handler that trusts the part from.
func (r *fileRoots) find(f *fileSet, p filePlace, from string) filePlace {
	root := r.acquire(f, from)
	p.handler, p.release = root.handler, func() { r.release(root) }
	return p
}

func (r *fileRoots) acquire(f *fileSet, from string) *fileRoot {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.roots[from]
	if h == nil {
		config := f.config
		config.SymlinksFrom = from
		config.Limits = shareOf(maxRoots)
		handler, err := files.New(config)
		if err != nil {
			panic(fmt.Sprintf("front: BUG: %v", err)) // openRoot has made one of the kind
		}
		for len(r.roots) >= maxRoots {
			r.evict()
		}
		h = &fileRoot{handler: handler}
		r.roots[from] = h
	}
	r.clock++
	h.used = r.clock
	h.users++
	return h
}

func (r *fileRoots) release(h *fileRoot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.users--; h.users == 0 && h.dropped {
		_ = h.handler.Close()
	}
}

// evict gives up one. mu is held.
func (r *fileRoots) evict() {
	oldest := ""
	for dir, h := range r.roots {
		if r.roots[oldest] == nil || h.used < r.roots[oldest].used {
			oldest = dir
		}
	}
	r.drop(oldest)
}

func (r *fileRoots) drop(dir string) {
	h := r.roots[dir]
	delete(r.roots, dir)
	h.dropped = true
	if h.users == 0 {
		_ = h.handler.Close()
	}
}

func (r *fileRoots) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for dir := range r.roots {
		r.drop(dir)
	}
}

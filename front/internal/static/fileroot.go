package static

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/places"
)

// fileRoots holds handlers of a directory for each trusted prefix (disable_symlinks from=), if that
// has variables. The least recently used are dropped.
type fileRoots struct {
	mu    sync.Mutex
	roots *simplelru.LRU[string, *files.Handler] // by the trusted prefix
}

// maxRoots bounds the handlers of one location. Each has a share of one handler's limits.
const maxRoots = 32

func newFileRoots() *fileRoots {
	r := new(fileRoots)
	r.roots, _ = simplelru.NewLRU[string, *files.Handler](maxRoots, nil)
	return r
}

// fileShareCount multiplies the default limits of one handler to those of all together.
const fileShareCount = 4

// fileLimits returns the limits of each directory. All directories of the Config share them.
func fileLimits(c *core.Compiler) files.Limits {
	return core.Shared(c, fileLimitsKey{}, func() files.Limits {
		roots := make(map[conf.Text]bool)
		for p := range places.Of(c.Config) {
			roots[p.Settings.Files.Root], roots[p.Settings.Files.Alias] = true, true
		}
		// a power of two, so that adding a directory seldom changes the limits, which would empty
		// the others' caches
		n := 1
		for n*fileShareCount < len(roots) {
			n *= 2
		}
		return shareOf(n)
	})
}

type fileLimitsKey struct{}

// shareOf returns the limits of one of n handlers.
func shareOf(n int) files.Limits {
	return files.Limits{
		Resources: max(files.DefaultResources/n, 64), Bytes: max(files.DefaultBytes/int64(n), 1<<20),
	}
}

// handler returns the handler that trusts the prefix from.
func (r *fileRoots) handler(f *fileSet, from string) *files.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.roots.Get(from); ok {
		return h
	}
	config := f.config
	config.SymlinksFrom, config.Limits = from, shareOf(maxRoots)
	h, err := f.open(config)
	if err != nil {
		panic(fmt.Sprintf("static: BUG: %v", err)) // openRoot has made a handler for the same root
	}
	r.roots.Add(from, h)
	return h
}

package files

import (
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Handler serves the files of a directory: see package front/files. New makes one.
type Handler struct {
	plan  *plan
	tree  *tree
	watch *watcher // nil if nothing is watched

	tick       atomic.Int64 // half seconds since New
	cache      *cache
	absent     *cache // of resources that do not exist
	flights    flights
	compressor *compressor
	idle       atomic.Int64 // descriptors
	buffers    sync.Pool    // of *[]byte

	began time.Time

	stop sync.Once
	done chan struct{}
	ends sync.WaitGroup
}

const (
	tick = time.Second / 2
	// unwatchedTicks is how long a resource without watches is served before the next check.
	unwatchedTicks = 2
	// watchedTicks is the same for a watched resource, and the interval of sweeping descriptors.
	watchedTicks = 120
)

// New returns a Handler, which must be closed.
func New(c Config) (*Handler, error) {
	p, err := compile(c)
	if err != nil {
		return nil, err
	}
	t, err := newTree(c)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		plan: p, tree: t, done: make(chan struct{}), began: time.Now(),
		compressor: &compressor{turns: make(chan struct{}, min(maxCompressing, max(1, runtime.GOMAXPROCS(0)/2)))},
		flights:    flights{up: make(map[string]func() loadResult)},
		cache:      newCache(p.config.Limits.Resources, p.config.Limits.Bytes),
		absent:     newCache(maxAbsent, maxAbsent*(maxPath+resourceWeight)),
	}
	if t.paths == nil { // otherwise each request checks
		h.watch = newWatcher(t, p.config.Dir, p.config.Limits.Watches, h.changed)
	}
	h.typeOf("x.html", nil) // loads the table
	h.ends.Go(h.countTicks)
	return h, nil
}

// Close stops the Handler's goroutines and closes its files. Later requests get 503; with ByPath
// they get the files, which are not cached.
func (h *Handler) Close() error {
	h.stop.Do(func() {
		close(h.done)
		h.watch.close()
		h.ends.Wait()
		h.cache.close()
		h.absent.close()
		h.tree.close()
	})
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, http.StatusMethodNotAllowed)
		return
	}
	switch status, name, dir := h.servePath(w, r, r.URL.Path, false); status {
	case 0:
	case http.StatusMovedPermanently:
		h.redirect(w, r, name, !dir)
	case http.StatusOK:
		h.list(w, r, name)
	default:
		h.fail(w, status)
	}
}

// fresh reports whether a resource may be served without a check.
func (h *Handler) fresh(res *resource) bool {
	if h.tree.paths != nil {
		return h.isUnchanged(res)
	}
	return h.tick.Load() < res.until.Load()
}

func (h *Handler) countTicks() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-t.C:
		}
		if h.tick.Add(1)%watchedTicks == 0 {
			h.sweep(false)
		}
	}
}

// sweep closes idle descriptors: those that were not used recently, or all.
func (h *Handler) sweep(all bool) {
	h.cache.each(func(r *resource) { r.eachVariant(func(v *variant) { v.files.sweep(all) }) })
}

// changed removes everything that depends on a name in a directory. If the name is a directory,
// that includes all below it.
func (h *Handler) changed(dir, name string, directory bool) {
	if name == "" && !directory { // an unknown change
		h.forgetBelow("")
		return
	}
	h.forget(dir, name)
	if directory {
		h.forgetBelow(key(path.Join(dir, name), true))
		return
	}
	for i := range h.plan.codings {
		if c := &h.plan.codings[i]; c.sibling {
			if original, ok := strings.CutSuffix(name, c.suffix); ok && original != "" {
				h.forget(dir, original)
			}
		}
	}
}

func (h *Handler) forget(dir, name string) {
	h.forgetKey(key(path.Join(dir, name), false))
	if slices.Contains(h.plan.config.Index, name) {
		h.forgetKey(key(dir, true))
	}
}

func (h *Handler) forgetKey(key string) {
	h.cache.remove(key, nil)
	h.absent.remove(key, nil)
}

func (h *Handler) forgetBelow(prefix string) {
	h.cache.removeBelow(prefix)
	h.absent.removeBelow(prefix)
}

// base returns the last name of a path below the root.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

package files

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Handler serves the files of a directory. It is safe for use by any number of requests at once.
//
// It answers GET and HEAD, and 405 to everything else. A directory's path ends in a slash, and a file's does not:
// the other form is redirected. Requests that name more than 16 ranges get the whole file. A file that changes while
// it is sent ends the connection (the stream in HTTP/2), before its last bytes have gone.
//
// Make one with New.
type Handler struct {
	plan  *plan
	tree  *tree
	watch *watcher
	why   error // nothing is watched

	tick       atomic.Int64 // half seconds since New
	cache      *cache
	absent     *cache // of resources that are not there
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
	// unwatchedTicks is how long a resource is answered from without a look if nobody tells of changes.
	unwatchedTicks = 2
	// watchedTicks is how long one that is watched is, and how often descriptors are swept.
	watchedTicks = 120
)

// New returns a handler for what a Config describes. Its errors name what is wrong with that, or say that the directory cannot
// be opened. The system's table of types is read here, so that the process may change its root afterwards only if Dir
// is still right there; Close the Handler to end what it runs.
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
		plan: p, tree: t, compressor: newCompressor(), done: make(chan struct{}), began: time.Now(),
		cache: newCache(p.limits.Resources, p.limits.Bytes), absent: newCache(maxAbsent, maxAbsent*(maxPath+resourceWeight)),
	}
	if t.paths == nil { // otherwise each request looks
		h.watch, h.why = newWatcher(t, p.dir, p.limits.Watches, h.changed)
	}
	h.typeOf("x.html", nil) // reads the table
	h.ends.Go(h.time)
	return h, nil
}

// Close ends what the Handler runs and closes what it has open. Requests that come afterwards get 503.
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

// WatchError is why changes of files, or of some, are noticed within a second only, and not at once: the system
// does not tell, or allows no more watching. Otherwise it is nil.
func (h *Handler) WatchError() error { return errors.Join(h.why, h.watch.err()) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if res := h.cache.get(r.URL.Path); res != nil && h.fresh(res) {
			if _, ok := h.answer(w, r, res, handlers); ok {
				return
			}
		}
	}
	h.find(w, r)
}

// fresh reports whether a resource may be answered from without a look.
func (h *Handler) fresh(res *resource) bool {
	if h.tree.paths != nil {
		return h.stillThere(res)
	}
	return h.tick.Load() < res.until.Load()
}

// time passes.
func (h *Handler) time() {
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

// sweep closes idle descriptors: those that nobody has asked for lately, or all.
func (h *Handler) sweep(all bool) {
	h.cache.each(func(r *resource) { r.eachVariant(func(v *variant) { v.files.sweep(all) }) })
}

// changed forgets what a name in a directory has to do with. Whatever was below it is forgotten, too, if it
// is a directory.
func (h *Handler) changed(dir, name string, directory bool) {
	if name == "" && !directory { // something has, somewhere
		h.forgetBelow("")
		return
	}
	h.forget(dir, name)
	if directory {
		h.forgetBelow(key(join(dir, name), true))
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
	h.forgetKey(key(join(dir, name), false))
	if h.plan.isIndex(name) {
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

// join joins a directory below the root, "" being the root, and a name in it.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	if name == "" {
		return dir
	}
	return dir + "/" + name
}

// base is the last name of a path below the root.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

package files

import (
	"net/http"
	"runtime"
	"sync"
	"time"
)

// Handler serves the files of a directory: see package front/files. New makes one.
type Handler struct {
	plan       *plan
	tree       tree
	watch      *watcher
	cache      *cache
	absent     *cache // of resources that do not exist
	flights    flights
	compressor *compressor
	buffers    sync.Pool // of *[]byte

	began time.Time
}

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
		plan: p, tree: t, began: time.Now(),
		compressor: &compressor{turns: make(chan struct{}, min(maxCompressing, max(1, runtime.GOMAXPROCS(0)/2)))},
		flights:    flights{up: make(map[string]func() (*resource, int))},
		cache:      newCache(p.config.Limits.Resources, p.config.Limits.Bytes),
		absent:     newCache(maxAbsent, maxAbsent*(maxPath+resourceWeight)),
	}
	h.watch = newWatcher(t)
	h.typeOf("x.html", nil) // loads the table
	return h, nil
}

// Close closes the directory and empties the cache. Later requests get 503; with ByPath they get
// the files, which are not cached.
func (h *Handler) Close() error {
	h.cache.close()
	h.absent.close()
	h.watch.close()
	h.tree.close()
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

package files

import (
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
)

// servePath sends what a path leads to. If there is nothing, it has no effect and returns the
// status and the place: 301 redirects to the path's other form, and 200 is a directory to list.
func (h *Handler) servePath(w http.ResponseWriter, r *http.Request, path string, returnsUnmet bool) (status int,
	name string, dir bool) {
	if res := h.cache.get(path); res != nil && h.fresh(res) {
		if status, ok := h.respond(w, r, res, returnsUnmet); ok {
			return status, "", false
		}
	}
	if name, dir, status = h.plan.place(path); status != 0 {
		return status, name, dir
	}
	k := key(name, dir)
	for range maxReloads {
		res, status := h.lookup(k, name, dir)
		if res == nil {
			return status, name, dir
		}
		if status, ok := h.respond(w, r, res, returnsUnmet); ok {
			return status, name, dir
		}
		h.cache.remove(res)
	}
	return http.StatusServiceUnavailable, name, dir
}

// lookup returns a resource from the cache, or loads it. Concurrent requests for a key load it
// once. If there is no resource, lookup returns the status.
func (h *Handler) lookup(k, name string, dir bool) (*resource, int) {
	for _, c := range [...]*cache{h.cache, h.absent} {
		if res := c.get(k); res != nil {
			if h.fresh(res) {
				return res, 0
			}
			c.remove(res)
		}
	}
	return h.flights.join(k, func() (*resource, int) {
		defer h.flights.end(k)
		return h.load(k, name, dir)
	})
}

// flights are the keys that are being loaded.
type flights struct {
	mu sync.Mutex
	up map[string]func() (*resource, int)
}

// join calls load, which must call end, or waits for another goroutine that does.
func (f *flights) join(key string, load func() (*resource, int)) (*resource, int) {
	f.mu.Lock()
	flight := f.up[key]
	if flight == nil {
		flight = sync.OnceValues(load)
		f.up[key] = flight
	}
	f.mu.Unlock()
	return flight()
}

func (f *flights) end(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.up, key)
}

// redirect redirects to the path with a final slash, or without one. The location is relative, so
// that it is also valid below http.StripPrefix. It cannot be if the path has escaped slashes: the
// response is then 404, as in net/http.
func (h *Handler) redirect(w http.ResponseWriter, r *http.Request, name string, slash bool) {
	if strings.Contains(strings.ToLower(r.URL.EscapedPath()), "%2f") {
		h.fail(w, http.StatusNotFound)
		return
	}
	base := (&url.URL{Path: path.Base("/" + name)}).EscapedPath()
	to := "../" + base
	if slash {
		to = base + "/"
	}
	// An empty segment at the end ("/a//") requires one more "..".
	if trimmed := strings.TrimRight(r.URL.Path, "/"); !slash && len(r.URL.Path) > len(trimmed)+1 {
		to = strings.Repeat("../", len(r.URL.Path)-len(trimmed)) + base
	}
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	header := w.Header()
	h.setAlways(header)
	header["Location"] = []string{to}
	header["Content-Length"] = []string{"0"}
	w.WriteHeader(http.StatusMovedPermanently)
}

// fail sends a status like http.Error.
func (h *Handler) fail(w http.ResponseWriter, status int) {
	h.setAlways(w.Header())
	text := http.StatusText(status)
	if status == http.StatusNotFound {
		text = "page not found" // the text of http.NotFound
	}
	http.Error(w, strconv.Itoa(status)+" "+text, status)
}

func (h *Handler) setAlways(header http.Header) {
	maps.Copy(header, h.plan.always.Clone())
}

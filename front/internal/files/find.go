package files

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
)

// loadResult is the result of loading a path: a resource, or a status.
type loadResult struct {
	res    *resource
	status int // 301 redirects to the path's other form; 200 is a directory to list
}

// servePath sends what a path leads to. If there is nothing, it has no effect and returns the status and
// the place.
func (h *Handler) servePath(w http.ResponseWriter, r *http.Request, path string, returnsUnmet bool) (status int,
	name string, dir bool) {
	if res := h.cache.get(path); res != nil && h.fresh(res) {
		if status, ok := h.respond(w, r, res, returnsUnmet); ok {
			return status, "", false
		}
	}
	if name, dir, status = h.plan.place(path); status == 0 {
		status = h.serve(w, r, name, dir, returnsUnmet)
	}
	return status, name, dir
}

// serve sends a resource. If there is none, it has no effect and returns the status.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string, dir, returnsUnmet bool) (status int) {
	k := key(name, dir)
	for range maxReloads {
		to := h.lookup(k, name, dir)
		if to.res == nil {
			return to.status
		}
		if status, ok := h.respond(w, r, to.res, returnsUnmet); ok {
			return status
		}
		h.cache.remove(to.res)
	}
	return http.StatusServiceUnavailable
}

// lookup returns a resource from the cache, or loads it. Concurrent requests for a key load it
// once.
func (h *Handler) lookup(k, name string, dir bool) loadResult {
	for _, c := range [...]*cache{h.cache, h.absent} {
		if res := c.get(k); res != nil {
			if h.fresh(res) {
				return loadResult{res: res}
			}
			c.remove(res)
		}
	}
	return h.flights.join(k, func() loadResult { return h.load(k, name, dir) })
}

// flights are the keys that are being loaded.
type flights struct {
	mu sync.Mutex
	up map[string]func() loadResult
}

// join calls load, or waits for another goroutine that does.
func (f *flights) join(key string, load func() loadResult) loadResult {
	f.mu.Lock()
	flight := f.up[key]
	if flight == nil {
		flight = sync.OnceValue(func() loadResult {
			defer f.end(key)
			return load()
		})
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

// load loads the resource of a key.
func (h *Handler) load(k, name string, dir bool) loadResult {
	l := &loader{h, &resource{key: k}}
	l.res.checked.Store(h.now())
	o, err := h.open(name)
	switch {
	case err != nil && statusOf(err) == http.StatusNotFound && !h.plan.config.ByPath:
		l.res.checks = []check{{name: name}}
		h.absent.put(l.res)
		return loadResult{res: l.res}
	case err != nil && (dir || statusOf(err) != http.StatusNotFound || !h.plan.config.Compress.hasSiblings()):
		return loadResult{status: statusOf(err)}
	case err != nil: // an encoded variant may exist
		l.res.checks = []check{{name: name}}
	case o.info.IsDir() && dir: // a change of names in it does not concern the index
		_ = o.Close()
		if name, o, err = l.openIndex(name); err != nil {
			return loadResult{status: statusOf(err)}
		}
		if o.File == nil && h.plan.config.Listing {
			return loadResult{status: http.StatusOK}
		}
		if o.File == nil {
			return loadResult{status: http.StatusForbidden}
		}
	case o.info.IsDir() || dir:
		_ = o.Close()
		return loadResult{status: http.StatusMovedPermanently}
	default:
		l.res.checks = []check{{name, o.stamp}}
	}
	return l.file(name, o)
}

// openIndex opens the index of a directory. The result has no File if there is none.
func (l *loader) openIndex(dir string) (string, openedFile, error) {
	for _, index := range l.h.plan.config.Index {
		name := path.Join(dir, index)
		l.dependOn(name)
		o, err := l.h.open(name)
		switch {
		case err == nil && o.info.Mode().IsRegular():
			return name, o, nil
		case err == nil:
			_ = o.Close()
		case statusOf(err) != http.StatusNotFound:
			return "", openedFile{}, err
		}
	}
	return "", openedFile{}, nil
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
	for _, f := range h.plan.always {
		header[f.name] = append([]string(nil), f.values...)
	}
}

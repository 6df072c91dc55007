package files

import (
	"errors"
	"io/fs"
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
		switch {
		case to.res == nil:
			return to.status
		case to.res.absent:
			return http.StatusNotFound
		}
		if status, ok := h.respond(w, r, to.res, returnsUnmet); ok {
			return status
		}
		h.cache.remove(k, to.res)
	}
	return http.StatusServiceUnavailable
}

// lookup returns a resource from the cache, or loads it. Concurrent requests for a key load it
// once.
func (h *Handler) lookup(k, name string, dir bool) loadResult {
	old := h.cache.get(k)
	if old != nil && h.fresh(old) {
		return loadResult{res: old}
	}
	if none := h.absent.get(k); none != nil && h.fresh(none) {
		return loadResult{res: none}
	}
	return h.flights.join(k, func() loadResult {
		to := h.load(k, name, dir, old)
		if to.status == http.StatusServiceUnavailable {
			// the process may be out of descriptors: close the idle ones
			h.sweep(true)
			to = h.load(k, name, dir, old)
		}
		return to
	})
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

// load loads the resource of a key. old is the resource that the cache has, or nil.
func (h *Handler) load(k, name string, dir bool, old *resource) loadResult {
	home := name
	if !dir {
		home = parent(name)
	}
	l := &loader{h: h, key: k, old: old, since: h.watch.events(), sure: h.watch.cover(home), began: h.now()}
	o, err := l.open(name)
	if err != nil {
		return l.missing(err)
	}
	switch {
	case o.info.IsDir() && dir:
		_ = o.Close()
		if o, err = l.openIndex(name); err != nil {
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
	}
	return l.file(o)
}

// open opens a file or directory. Through a link, the watcher could not tell which resource an
// event concerns.
func (l *loader) open(name string) (openedFile, error) {
	o, err := l.h.tree.open(name)
	l.sure = l.sure && o.plain
	return o, err
}

// missing returns the status of what cannot be opened. It caches that the file does not exist, if
// the watcher would report its creation.
func (l *loader) missing(err error) loadResult {
	l.h.cache.remove(l.key, nil)
	if l.sure && errors.Is(err, fs.ErrNotExist) {
		res := &resource{key: l.key, absent: true}
		l.h.absent.put(res, func() { l.setUntil(res) })
	}
	return loadResult{status: statusOf(err)}
}

// openIndex opens the index of a directory. The result has no File if there is none.
func (l *loader) openIndex(dir string) (openedFile, error) {
	for _, name := range l.h.plan.config.Index {
		o, err := l.open(path.Join(dir, name))
		switch {
		case err == nil && o.info.Mode().IsRegular():
			return o, nil
		case err == nil:
			_ = o.Close()
		case statusOf(err) != http.StatusNotFound:
			return openedFile{}, err
		}
	}
	return openedFile{}, nil
}

func parent(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
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

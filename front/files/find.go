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

// found is where a path leads to: a resource, or else a status.
type found struct {
	res    *resource
	status int // 301 is to the path's other form; 200 is a directory that is listed
}

// find answers a request that the cache alone cannot.
func (h *Handler) find(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, http.StatusMethodNotAllowed)
		return
	}
	name, dir, status := h.plan.place(r.URL.Path)
	if status != 0 {
		h.fail(w, status)
		return
	}
	switch status := h.serve(w, r, name, dir, handlers); status {
	case 0:
	case http.StatusMovedPermanently:
		h.redirect(w, r, name, !dir)
	case http.StatusOK:
		h.list(w, r, name)
	default:
		h.fail(w, status)
	}
}

// serve answers with a resource. If there is none it does nothing and says what there is instead, as found.status does.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string, dir bool, unmet whose) (status int) {
	k := key(name, dir)
	for range maxReloads {
		to := h.lookup(k, name, dir)
		switch {
		case to.res == nil:
			return to.status
		case to.res.absent:
			return http.StatusNotFound
		}
		if status, ok := h.answer(w, r, to.res, unmet); ok {
			return status
		}
		h.cache.remove(k, to.res)
	}
	return http.StatusServiceUnavailable
}

// lookup finds a resource in the cache, or else brings it there. Many requests for the same bring it once.
func (h *Handler) lookup(k, name string, dir bool) found {
	old := h.cache.get(k)
	if old != nil && h.fresh(old) {
		return found{res: old}
	}
	if none := h.absent.get(k); none != nil && h.fresh(none) {
		return found{res: none}
	}
	return h.flights.join(k, func() found {
		to := h.load(k, name, dir, old)
		if to.status == http.StatusServiceUnavailable { // descriptors have run out, perhaps: those that are idle can be had
			h.sweep(true)
			to = h.load(k, name, dir, old)
		}
		return to
	})
}

// flights are the keys that are being loaded, and those who wait for them.
type flights struct {
	mu sync.Mutex
	up map[string]*flight
}

type flight struct {
	landed chan struct{}
	to     found
}

// join runs load, or waits for whoever runs it already.
func (f *flights) join(key string, load func() found) found {
	f.mu.Lock()
	if other := f.up[key]; other != nil {
		f.mu.Unlock()
		<-other.landed
		return other.to
	}
	own := &flight{landed: make(chan struct{}), to: found{status: http.StatusInternalServerError}}
	if f.up == nil {
		f.up = make(map[string]*flight)
	}
	f.up[key] = own
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.up, key)
		f.mu.Unlock()
		close(own.landed)
	}()
	own.to = load()
	return own.to
}

// load looks at what a key leads to now. old is what it led to, or nil.
func (h *Handler) load(k, name string, dir bool, old *resource) found {
	home := name
	if !dir {
		home = parent(name)
	}
	l := &loading{h: h, key: k, old: old, since: h.watch.events(), sure: h.watch.cover(home), began: h.now()}
	o, err := l.open(name)
	if err != nil {
		return l.missing(err)
	}
	switch {
	case o.info.IsDir() && dir:
		_ = o.Close()
		if o, err = l.openIndex(name); err != nil {
			return found{status: statusOf(err)}
		}
		if o.File == nil && h.plan.showDirs {
			return found{status: http.StatusOK}
		}
		if o.File == nil {
			return found{status: http.StatusForbidden}
		}
	case o.info.IsDir() || dir:
		_ = o.Close()
		return found{status: http.StatusMovedPermanently}
	}
	return l.file(o)
}

// open opens a file or directory. Who was told of a change in what a link leads to would not know whose change it is.
func (l *loading) open(name string) (opened, error) {
	o, err := l.h.tree.open(name)
	l.sure = l.sure && o.plain
	return o, err
}

// missing tells of what cannot be opened. That it does not exist is remembered if somebody tells when it does.
func (l *loading) missing(err error) found {
	l.h.cache.remove(l.key, nil)
	if l.sure && errors.Is(err, fs.ErrNotExist) {
		res := &resource{key: l.key, absent: true}
		l.h.absent.put(res, func() { l.setUntil(res) })
	}
	return found{status: statusOf(err)}
}

// openIndex opens the file that stands for a directory; without a File there is none.
func (l *loading) openIndex(dir string) (opened, error) {
	for _, name := range l.h.plan.index {
		o, err := l.open(join(dir, name))
		switch {
		case err == nil && o.info.Mode().IsRegular():
			return o, nil
		case err == nil:
			_ = o.Close()
		case statusOf(err) != http.StatusNotFound:
			return opened{}, err
		}
	}
	return opened{}, nil
}

func parent(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// redirect sends a client to a path with a slash at its end, or without one. The place is relative, so that it is right
// below http.StripPrefix, too.
func (h *Handler) redirect(w http.ResponseWriter, r *http.Request, name string, slash bool) {
	base := (&url.URL{Path: path.Base("/" + name)}).EscapedPath()
	to := "../" + base
	if slash {
		to = base + "/"
	}
	// Of an empty segment at the end ("/a//") ".." is one too few.
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

// fail answers with a status and nothing else, as http.Error does.
func (h *Handler) fail(w http.ResponseWriter, status int) {
	h.setAlways(w.Header())
	text := http.StatusText(status)
	if status == http.StatusNotFound {
		text = "page not found" // what http.NotFound says
	}
	http.Error(w, strconv.Itoa(status)+" "+text, status)
}

func (h *Handler) setAlways(header http.Header) {
	for _, f := range h.plan.always {
		header[f.name] = append([]string(nil), f.values...)
	}
}

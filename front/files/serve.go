package files

import "net/http"

// Kind is what a path leads to.
type Kind int

// Kinds.
const (
	Nothing   Kind = iota // that may be served
	File                  // also one that cannot be read
	Directory             // with an index or without
	Denied                // what may not be looked at, with ByPath
)

// ServePath answers GET and HEAD requests as ServeHTTP does, but for another path than the request's, and for files and lists of directories only.
// For everything else it returns the status that tells of it, and has done nothing: 301 is for a directory whose path has no slash at
// its end, or a file whose path has one. So it does for 412 and 416, of which it has set the Content-Range. 0 is that it has answered.
//
// Of the request its header counts, and for lists its query.
func (h *Handler) ServePath(w http.ResponseWriter, r *http.Request, path string) (status int) {
	if res := h.cache.get(path); res != nil && h.fresh(res) {
		if status, ok := h.answer(w, r, res, callers); ok {
			return status
		}
	}
	name, dir, status := h.plan.place(path)
	if status != 0 {
		return status
	}
	if status = h.serve(w, r, name, dir, callers); status == http.StatusOK {
		h.list(w, r, name)
		return 0
	}
	return status
}

// Kind says what a path leads to, whether it ends in a slash or not. What it says of files is remembered: to ask again, or to
// serve them, costs little.
func (h *Handler) Kind(path string) Kind {
	if res := h.cache.get(path); res != nil && h.fresh(res) {
		return res.kind()
	}
	name, _, status := h.plan.place(path)
	if status != 0 {
		return Nothing
	}
	if h.tree.paths != nil {
		return h.tree.paths.kind(name)
	}
	to := h.lookup(key(name, false), name, false)
	switch {
	case to.res != nil && !to.res.absent, to.status == http.StatusForbidden:
		return File
	case to.status == http.StatusMovedPermanently:
		return Directory
	}
	return Nothing
}

// kind is that of what is remembered by a key: a slash at its end stands for a directory, whose index it is.
func (r *resource) kind() Kind {
	switch {
	case r.absent:
		return Nothing
	case r.key[len(r.key)-1] == '/':
		return Directory
	}
	return File
}

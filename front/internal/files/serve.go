package files

import "net/http"

// Kind is what a path leads to.
type Kind int

// The kinds.
const (
	Nothing   Kind = iota // nothing that may be served
	File                  // including files that cannot be read
	Directory             // with or without an index
	Denied                // no permission, with ByPath
)

// ServePath serves GET and HEAD requests like ServeHTTP, but for another path, and only files.
// Otherwise it returns the status that describes the result, and writes nothing. 301 means that a
// directory's path lacks the final slash, or that a file's path has one. For 412 and 416 it also
// returns the status, after setting Content-Range. 0 means that the response is complete.
//
// It uses the request's method and header.
func (h *Handler) ServePath(w http.ResponseWriter, r *http.Request, path string) (status int) {
	status, _, _ = h.servePath(w, r, path, true)
	return status
}

// Kind returns what a path leads to, with or without a final slash. It requires Config.ByPath.
func (h *Handler) Kind(path string) Kind {
	if res := h.cache.get(path); res != nil && h.fresh(res) {
		return res.kind()
	}
	name, _, status := h.plan.place(path)
	if status != 0 {
		return Nothing
	}
	info, err := h.tree.stat(name)
	switch {
	case err == nil && info.IsDir():
		return Directory
	case err == nil && info.Mode().IsRegular():
		return File
	case err != nil && statusOf(err) == http.StatusForbidden:
		return Denied
	}
	return Nothing
}

// kind returns the kind of a cached key: a key with a final slash is a directory with its index.
func (r *resource) kind() Kind {
	switch {
	case r.identity == nil:
		return Nothing
	case r.key[len(r.key)-1] == '/':
		return Directory
	}
	return File
}

package files

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
)

// RandomFile returns the name of a random file in the directory that a path leads to, or "" if it
// has none. It omits hidden files, and those behind links that are not followed. The status is that
// of an error, otherwise 0.
func (h *Handler) RandomFile(path string) (name string, status int) {
	dir, _, status := h.plan.place(path)
	if status != 0 {
		return "", status
	}
	o, err := h.tree.open(dir)
	if err != nil {
		return "", statusOf(err)
	}
	defer o.Close()
	if !o.info.IsDir() {
		return "", statusOf(errIrregular)
	}
	const batch = 256
	for found := 0; ; {
		entries, err := o.ReadDir(batch)
		for _, e := range entries {
			if !h.isListedFile(dir, e) {
				continue
			}
			if found++; rand.IntN(found) == 0 { // each of them remains with the same probability
				name = e.Name()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return name, 0
		case err != nil:
			return "", statusOf(err)
		}
	}
}

// isListedFile reports whether an entry of a directory is a regular file that may be served. A link
// counts as its target.
func (h *Handler) isListedFile(dir string, e fs.DirEntry) bool {
	if e.Name()[0] == '.' || !h.plan.mayServe(e.Name(), dir == "") {
		return false
	}
	if e.Type().IsRegular() {
		return true
	}
	if e.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := h.tree.stat(join(dir, e.Name()))
	return err == nil && info.Mode().IsRegular()
}

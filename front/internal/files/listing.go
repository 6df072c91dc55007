package files

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is a file or directory in a listing.
type Entry struct {
	Name         string
	Dir, Regular bool // both false for a device, and for a link that leads nowhere
	Size         int64
	Modified     time.Time
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request, dir string) {
	entries, isCut, err := h.entries(dir)
	if err != nil {
		h.fail(w, statusOf(err))
		return
	}
	path := "/" + dir
	if dir != "" {
		path += "/"
	}
	body := (&Page{IsUTF8: true, IsRounded: true}).Append(nil, path, entries, isCut)
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'")
	h.setAlways(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// List returns the entries of a directory, and whether there are more: directories first, by name.
// The status is 0, or describes the error.
func (h *Handler) List(path string) (all []Entry, isCut bool, status int) {
	name, _, status := h.plan.place(path)
	if status != 0 {
		return nil, false, status
	}
	all, isCut, err := h.entries(name)
	if err != nil {
		return nil, false, statusOf(err)
	}
	return all, isCut, 0
}

func (h *Handler) entries(dir string) (all []Entry, isCut bool, err error) {
	all, isCut, err = h.readEntries(dir)
	slices.SortFunc(all, func(a, b Entry) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, isCut, err
}

// readEntries reads a directory. It omits what would not be served, unless files are found by path:
// then it lists what nginx lists.
func (h *Handler) readEntries(dir string) (all []Entry, cut bool, err error) {
	o, err := h.open(dir)
	if err != nil {
		return nil, false, err
	}
	defer o.Close()
	if !o.info.IsDir() {
		return nil, false, errIrregular
	}
	const batch = 256
	for {
		names, err := o.Readdirnames(batch)
		for _, name := range names {
			if len(all) == maxListed {
				return all, true, nil
			}
			if e, ok := h.entry(dir, name); ok {
				all = append(all, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return all, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// entry returns the entry of a name in a directory. A link counts as its target.
func (h *Handler) entry(dir, name string) (Entry, bool) {
	if !h.plan.mayServe(name, dir == "") || h.plan.config.ByPath && name[0] == '.' {
		return Entry{}, false
	}
	info, err := h.tree.stat(path.Join(dir, name))
	if h.plan.config.ByPath {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) {
			// a dangling link, which nginx lists
			info, err = os.Lstat(h.plan.config.Dir + "/" + path.Join(dir, name))
		}
	} else if err == nil && (!info.IsDir() && !info.Mode().IsRegular() || info.Mode()&fs.ModePerm == 0) {
		return Entry{}, false // it is not served, or no user may read it
	}
	if err != nil {
		return Entry{}, false
	}
	return Entry{Name: name, Dir: info.IsDir(), Regular: info.Mode().IsRegular(), Size: info.Size(),
		Modified: info.ModTime()}, true
}

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listedDir is the data of a page.
type listedDir struct {
	Path    string
	Last    string  // the directory's own name
	Parents []crumb // from the root down
	Up      bool
	Columns []column
	Entries []Entry
	Cut     bool // the list is incomplete
	Most    int
}

// crumb is a parent directory.
type crumb struct{ Name, Href string }

// column is a heading with its link.
type column struct{ Name, Href, Sorted string }

// Entry is a file or directory in a listing.
type Entry struct {
	Name, Href   string
	Dir, Regular bool // neither for a device, and for a link that leads nowhere
	Size         int64
	Modified     time.Time
}

// Bytes returns a size for people.
func (e Entry) Bytes() string {
	if e.Dir {
		return ""
	}
	if e.Size < 1000 {
		return strconv.FormatInt(e.Size, 10) + " B"
	}
	size, unit := float64(e.Size), 0
	for size >= 999.5 && unit < len("kMGTPE") {
		size, unit = size/1000, unit+1
	}
	precision := 0
	if size < 9.95 {
		precision = 1
	}
	return fmt.Sprintf("%.*f %cB", precision, size, "kMGTPE"[unit-1])
}

// list sends a page for a directory.
func (h *Handler) list(w http.ResponseWriter, r *http.Request, dir string) {
	entries, cut, err := h.entries(dir)
	if err != nil {
		h.fail(w, statusOf(err))
		return
	}
	query := r.URL.Query()
	by, down := order(query)
	sortEntries(entries, by, down)
	page := listedDir{
		Path: "/" + dir, Last: base(dir), Parents: crumbs(dir), Up: dir != "", Columns: columns(by, down),
		Entries: entries, Cut: cut, Most: maxListed,
	}
	var b bytes.Buffer
	page.write(&b)
	header := w.Header()
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	h.setAlways(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(b.Len()))
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}

// List returns the entries of a directory in any order, and whether there are more. The status is
// 0, or describes the error.
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

// entries reads a directory. It omits what would not be served, unless files are found by path:
// then it lists what nginx lists.
func (h *Handler) entries(dir string) (all []Entry, cut bool, err error) {
	o, err := h.tree.open(dir)
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
	if !h.plan.mayServe(name, dir == "") || h.plan.hideDotfiles && name[0] == '.' {
		return Entry{}, false
	}
	info, err := h.tree.stat(join(dir, name))
	if h.tree.paths != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) {
			// a dangling link, which nginx lists
			info, err = os.Lstat(h.tree.paths.path(join(dir, name)))
		}
		return newEntry(name, info), err == nil
	}
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return Entry{}, false
	}
	if info.Mode()&fs.ModePerm == 0 {
		return Entry{}, false // no user may read it
	}
	return newEntry(name, info), true
}

func newEntry(name string, info fs.FileInfo) Entry {
	if info == nil {
		return Entry{}
	}
	e := Entry{Name: name, Href: (&url.URL{Path: name}).EscapedPath(), Dir: info.IsDir(),
		Regular: info.Mode().IsRegular(), Size: info.Size(), Modified: info.ModTime()}
	if e.Dir {
		e.Href += "/"
	}
	return e
}

// order returns the sort order in a query.
func order(query url.Values) (by string, down bool) {
	by = query.Get("sort")
	if by != "size" && by != "time" {
		by = "name"
	}
	return by, query.Get("order") == "desc"
}

// sortEntries sorts directories first, and equal entries by name.
func sortEntries(entries []Entry, by string, down bool) {
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		var c int
		switch by {
		case "size":
			if !a.Dir {
				c = int(min(max(a.Size-b.Size, -1), 1))
			}
		case "time":
			c = a.Modified.Compare(b.Modified)
		default:
			c = strings.Compare(a.Name, b.Name)
		}
		if down {
			c = -c
		}
		if c == 0 {
			c = strings.Compare(a.Name, b.Name)
		}
		return c
	})
}

// columns returns the headings. The link of the current order reverses it.
func columns(by string, down bool) (all []column) {
	for _, c := range [...]struct{ name, key string }{{"Name", "name"}, {"Size", "size"}, {"Changed", "time"}} {
		col := column{Name: c.name, Href: "?sort=" + c.key + "&order=asc"}
		if c.key == by {
			col.Sorted = "ascending"
			if down {
				col.Sorted = "descending"
			} else {
				col.Href = "?sort=" + c.key + "&order=desc"
			}
		}
		all = append(all, col)
	}
	return all
}

// crumbs returns the parent directories with relative links, which are also valid below a prefix.
func crumbs(dir string) (all []crumb) {
	if dir == "" {
		return nil
	}
	names := strings.Split(dir, "/")
	for i := range names {
		name := "/"
		if i > 0 {
			name = names[i-1]
		}
		all = append(all, crumb{name, strings.Repeat("../", len(names)-i)})
	}
	return all
}

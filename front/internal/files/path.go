package files

import (
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
)

// place normalizes the decoded path of a URL: it returns a path below the root, without slashes at
// its ends, and whether it names a directory. "" is the root. A status other than 0 rejects the
// path:
//
//   - 400 for what no client sends by accident: NUL, and ".." as a segment;
//   - 404 for names that are too long to exist, and those that begin with a dot, unless dotfiles
//     are served. On Windows that includes ambiguous names: with a colon or a backslash, devices
//     such as NUL or aux.txt, and names that end in a dot or a space.
//
// Empty segments and "." are removed. As in net/http, %2f is a slash.
func (p *plan) place(urlPath string) (name string, dir bool, status int) {
	if strings.IndexByte(urlPath, 0) >= 0 {
		return "", false, http.StatusBadRequest
	}
	var b strings.Builder
	dir = true
	for segment := range strings.SplitSeq(urlPath, "/") {
		if dir = segment == "" || segment == "."; dir {
			continue
		}
		if segment == ".." {
			return "", false, http.StatusBadRequest
		}
		if !p.mayServe(segment, b.Len() == 0) {
			status = http.StatusNotFound // unless a ".." follows
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(segment)
	}
	if len(urlPath) > maxPath {
		status = http.StatusNotFound
	}
	if status != 0 {
		return "", false, status
	}
	return b.String(), dir, 0
}

// mayServe reports whether a file or directory with a name may be served. top reports that it is in
// the root.
func (p *plan) mayServe(name string, top bool) bool {
	if len(name) > maxName || strings.IndexByte(name, 0) >= 0 || runtime.GOOS == "windows" && isMisread(name) {
		return false
	}
	return name[0] != '.' || p.config.Dotfiles || top && name == ".well-known"
}

// isMisread reports whether Windows treats a name as something else: a path, a stream of a file,
// another name, or a device.
func isMisread(name string) bool {
	_, err := filepath.Localize(name)
	last := name[len(name)-1]
	return err != nil || last == ' ' || last == '.'
}

// key returns the cache key of a place: its shortest URL path.
func key(name string, dir bool) string {
	if !dir || name == "" {
		return "/" + name
	}
	return "/" + name + "/"
}

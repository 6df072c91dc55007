// Package mediatype maps file names to media types, with a charset.
package mediatype

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// Table maps file name extensions to types, with a charset.
type Table struct {
	byExtension map[string]string // nil is the system's table
	defaultType string
	charset     string
	withCharset Set    // types that get the charset
	Key         string // a fingerprint
}

// New compiles the types of a table; nil is the system's.
func New(f *conf.Files, table map[string]string, defaultType string) *Table {
	with := f.CharsetTypes
	if with == nil {
		with = []string{"text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"}
	}
	t := &Table{charset: f.Charset, withCharset: NewSet(with)}
	if table != nil {
		t.byExtension = make(map[string]string, len(table))
		for end, media := range table {
			t.byExtension[strings.ToLower(end)] = t.WithCharset(media)
		}
	}
	t.defaultType = t.WithCharset(defaultType)
	t.Key = t.fingerprint()
	return t
}

// Set is a set of media types.
type Set struct {
	any   bool
	names map[string]bool // in lower case
}

// NewSet returns the set of text/html and others; "*" is any type.
func NewSet(others []string) Set {
	s := Set{names: map[string]bool{"text/html": true}}
	for _, name := range others {
		s.any = s.any || name == "*"
		s.names[strings.ToLower(name)] = true
	}
	return s
}

// Contains reports whether the type of a Content-Type is in the set.
func (s *Set) Contains(contentType string) bool {
	if s.any {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return s.names[strings.ToLower(strings.TrimSpace(media))]
}

// fingerprint identifies types, also across Configs.
func (t *Table) fingerprint() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %v %v\n", t.defaultType, t.charset, t.withCharset.names, t.byExtension == nil)
	for _, end := range slices.Sorted(maps.Keys(t.byExtension)) {
		fmt.Fprintf(hash, "%q %q\n", end, t.byExtension[end])
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// TypeOf returns the type of a path.
func (t *Table) TypeOf(path string) string {
	end := Extension(path)
	if end == "" {
		return t.defaultType
	}
	if t.byExtension == nil {
		media := mime.TypeByExtension("." + end)
		if media == "" {
			return t.defaultType
		}
		return t.WithCharset(media)
	}
	if media, ok := t.byExtension[end]; ok {
		return media
	}
	if media, ok := t.byExtension[strings.ToLower(end)]; ok {
		return media
	}
	return t.defaultType
}

// WithCharset adds the charset to a type that gets it and has none.
func (t *Table) WithCharset(media string) string {
	if t.charset == "" || t.charset == "off" {
		return media
	}
	_, parameters, _ := strings.Cut(media, ";")
	if strings.Contains(strings.ToLower(parameters), "charset=") || !t.withCharset.Contains(media) {
		return media
	}
	return media + "; charset=" + t.charset
}

// PageType returns the type of a built-in page. As in nginx pages of 301 and 302 have no charset.
func (t *Table) PageType(status int) string {
	if status == http.StatusMovedPermanently || status == http.StatusFound {
		return "text/html"
	}
	return t.WithCharset("text/html")
}

// Extension returns the extension of a path's last name, without the dot, or "".
func Extension(path string) string {
	for i := len(path) - 1; i > 0 && path[i] != '/'; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return ""
}

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
	byExtension  map[string]string // nil is the system's table
	defaultType  string
	charset      string
	charsetTypes []string // types that get the charset
	Key          string   // a fingerprint
}

// New compiles the types of a table; nil is the system's.
func New(f *conf.Files, table map[string]string, defaultType string) *Table {
	t := &Table{defaultType: defaultType, charset: f.Charset, charsetTypes: charsetTypes(f)}
	if table != nil {
		t.byExtension = make(map[string]string, len(table))
		for end, media := range table {
			t.byExtension[strings.ToLower(end)] = t.WithCharset(media)
		}
	}
	t.defaultType = t.WithCharset(t.defaultType)
	t.Key = t.fingerprint()
	return t
}

// charsetTypes returns the types that get a charset, always text/html.
func charsetTypes(f *conf.Files) []string {
	if f.CharsetTypes != nil {
		return append([]string{"text/html"}, f.CharsetTypes...)
	}
	return []string{
		"text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml",
	}
}

// fingerprint identifies types, also across Configs.
func (t *Table) fingerprint() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %v\n", t.defaultType, t.charset, t.charsetTypes, t.byExtension == nil)
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

// WithCharset adds the charset to a type of charsetTypes that has none.
func (t *Table) WithCharset(media string) string {
	if t.charset == "" || t.charset == "off" {
		return media
	}
	_, parameters, _ := strings.Cut(media, ";")
	if strings.Contains(strings.ToLower(parameters), "charset=") || !containsType(t.charsetTypes, media) {
		return media
	}
	return media + "; charset=" + t.charset
}

// containsType reports whether a list has a media type.
func containsType(types []string, media string) bool {
	media, _, _ = strings.Cut(media, ";")
	return slices.Contains(types, "*") || slices.Contains(types, strings.ToLower(strings.TrimSpace(media)))
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

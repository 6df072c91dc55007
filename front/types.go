package front

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// mediaTypes are types by the ends of names, with the charset that they go with.
type mediaTypes struct {
	byExtension  map[string]string // nil is the system's table
	defaultType  string
	charset      string
	charsetTypes []string // types that have the charset
	key          string   // tells them from others
}

// typesKey is what media types are made of.
type typesKey struct {
	table                      uintptr // which map it is; those of one Config are not changed
	defaultType, charset, with string
}

// mediaTypes compiles those of a location. Those that are the same are one.
func (c *compiler) mediaTypes(f *Files) *mediaTypes {
	t := &mediaTypes{defaultType: f.DefaultType, charset: f.Charset, charsetTypes: f.CharsetTypes}
	if t.defaultType == "" {
		t.defaultType = "text/plain"
	}
	if t.charsetTypes == nil {
		t.charsetTypes = []string{
			"text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml",
		}
	}
	table := f.Types
	if table == nil {
		table = c.config.Types
	}
	key := typesKey{reflect.ValueOf(table).Pointer(), t.defaultType, t.charset, strings.Join(t.charsetTypes, "\n")}
	if same := c.types[key]; same != nil {
		return same
	}
	if table != nil {
		t.byExtension = make(map[string]string, len(table))
		for end, media := range table {
			t.byExtension[strings.ToLower(end)] = t.withCharset(media)
		}
	}
	t.defaultType = t.withCharset(t.defaultType)
	t.key = t.fingerprint()
	c.types[key] = t
	return t
}

// fingerprint tells types from others, those of other Configs too.
func (t *mediaTypes) fingerprint() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %v\n", t.defaultType, t.charset, t.charsetTypes, t.byExtension == nil)
	for _, end := range slices.Sorted(maps.Keys(t.byExtension)) {
		fmt.Fprintf(hash, "%q %q\n", end, t.byExtension[end])
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// of is the type of a path.
func (t *mediaTypes) typeOf(path string) string {
	end := extension(path)
	if end == "" {
		return t.defaultType
	}
	if t.byExtension == nil {
		media := mime.TypeByExtension("." + end)
		if media == "" {
			return t.defaultType
		}
		return t.withCharset(media)
	}
	if media, ok := t.byExtension[end]; ok {
		return media
	}
	if media, ok := t.byExtension[strings.ToLower(end)]; ok {
		return media
	}
	return t.defaultType
}

// withCharset adds the charset to a type that has none, if it goes with it.
func (t *mediaTypes) withCharset(media string) string {
	if t.charset == "" || t.charset == "off" {
		return media
	}
	name, parameters, _ := strings.Cut(media, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	if strings.Contains(strings.ToLower(parameters), "charset=") || !slices.Contains(t.charsetTypes, name) && !slices.Contains(t.charsetTypes, "*") {
		return media
	}
	return media + "; charset=" + t.charset
}

// ofPage is the type of a page that is built in. As in nginx those of the oldest redirects have no charset.
func (t *mediaTypes) pageType(status int) string {
	if status == http.StatusMovedPermanently || status == http.StatusFound {
		return "text/html"
	}
	return t.withCharset("text/html")
}

// complete adds the charset to the type of an answer that does not say which one it has.
func (t *mediaTypes) addCharset(header http.Header) {
	if media := header["Content-Type"]; len(media) == 1 && header["Content-Encoding"] == nil {
		if with := t.withCharset(media[0]); with != media[0] {
			header["Content-Type"] = []string{with}
		}
	}
}

// extension is the end of a path's last name, without the dot; empty if it has none.
func extension(path string) string {
	for i := len(path) - 1; i > 0 && path[i] != '/'; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return ""
}

package front

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/files"
)

const (
	// listedName is the width of names in a listing in HTML, in characters.
	listedName = 50
	// maxCallback limits the length of a name in ?callback=, as in nginx.
	maxCallback = 128
)

// listing says how directories are listed: byte for byte as nginx does, because programs read it.
type listing struct {
	isOn        bool
	format      string // "html", "json", "jsonp" or "xml"
	isRounded   bool   // sizes in HTML
	isLocalTime bool   // times in HTML
}

// newListing compiles the settings of listings.
func newListing(s *conf.Files) (listing, error) {
	l := listing{s.Listing, cmp.Or(s.ListingFormat, "html"), s.RoundSizes, s.LocalTimes}
	if !slices.Contains([]string{"html", "json", "jsonp", "xml"}, l.format) {
		return l, fmt.Errorf("autoindex_format: invalid format %q: want html, json, jsonp or xml", l.format)
	}
	return l, nil
}

// list responds with the listing of a directory.
func (f *fileSet) list(x *exchange, p *filePlace) outcome {
	format, callback := f.listing.format, ""
	if format == "jsonp" {
		if callback = argument(x.args, "callback"); !isCallback(callback) {
			x.errorf(levelInfo, "client sent invalid callback name: %q", truncateLogged(callback))
			return x.fail(http.StatusBadRequest)
		}
	}
	entries, isCut, status := p.handler.List(p.name)
	if status != 0 {
		f.logUnreadable(x, status)
		return x.fail(status)
	}
	if isCut {
		x.errorf(levelWarn, "autoindex: %q has more names than the %d that are listed", truncateLogged(x.path),
			len(entries))
	}
	slices.SortFunc(entries, func(a, b files.Entry) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	var body []byte
	media := f.types.withCharset("text/html")
	switch {
	case format == "xml":
		body, media = appendXMLListing(nil, entries), "text/xml; charset=utf-8"
	case callback != "":
		body = append(appendJSONListing([]byte("/* callback */\r\n"+callback+"("), entries), ");"...)
		media = "application/javascript"
	case format != "html":
		body, media = appendJSONListing(nil, entries), "application/json"
	default:
		page := htmlListing{&f.listing, strings.EqualFold(f.types.charset, "utf-8")}
		body = page.append(nil, x.path, entries)
	}
	header := x.w.Header()
	header["Content-Type"], header["Content-Length"] = []string{media}, []string{strconv.Itoa(len(body))}
	if x.method != http.MethodHead {
		_, _ = x.w.Write(body) // an error ends the connection
	}
	return responded
}

// isCallback reports whether a name of a JavaScript function may precede the JSON.
func isCallback(name string) bool {
	return len(name) <= maxCallback && strings.Trim(name,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == ""
}

// htmlListing is a listing in HTML. As in nginx its columns are counted in characters if the
// charset is UTF-8, otherwise in bytes.
type htmlListing struct {
	settings *listing
	isUTF8   bool
}

// append appends the page.
func (l *htmlListing) append(b []byte, path string, entries []files.Entry) []byte {
	title := escapeListed(path)
	b = fmt.Appendf(b, "<html>\r\n<head><title>Index of %s</title></head>\r\n<body>\r\n<h1>Index of %s</h1><hr><pre>"+
		"<a href=\"../\">../</a>\r\n", title, title)
	for i := range entries {
		b = l.appendLine(b, &entries[i])
	}
	return append(b, "</pre><hr></body>\r\n</html>\r\n"...)
}

// appendLine appends the line of an entry.
func (l *htmlListing) appendLine(b []byte, e *files.Entry) []byte {
	b = append(b, `<a href="`...)
	b = appendComponent(b, e.Name)
	if e.Dir {
		b = append(b, '/')
	}
	b = append(b, `">`...)
	length := l.nameLength(e.Name)
	if length > listedName {
		b = append(append(b, escapeListed(l.nameStart(e.Name, listedName-3))...), "..&gt;</a>"...)
	} else {
		b = append(b, escapeListed(e.Name)...)
		if e.Dir && length < listedName {
			b = append(b, '/')
			length++
		}
		b = append(b, "</a>"...)
		b = append(b, strings.Repeat(" ", listedName-length)...)
	}
	at := e.Modified.UTC()
	if l.settings.isLocalTime {
		at = e.Modified.Local()
	}
	b = at.AppendFormat(append(b, ' '), "02-Jan-2006 15:04 ")
	switch {
	case e.Dir && l.settings.isRounded:
		b = append(b, "      -"...)
	case e.Dir:
		b = append(b, "                  -"...)
	case l.settings.isRounded:
		b = append(b, roundedSize(e.Size)...)
	default:
		b = fmt.Appendf(b, "%19d", e.Size)
	}
	return append(b, "\r\n"...)
}

// nameLength returns the length of a name.
func (l *htmlListing) nameLength(name string) int {
	if l.isUTF8 {
		return utf8.RuneCountInString(name)
	}
	return len(name)
}

// nameStart returns the start of a name that is longer than n.
func (l *htmlListing) nameStart(name string, n int) string {
	if !l.isUTF8 {
		return name[:n]
	}
	return string([]rune(name)[:n])
}

// roundedSize returns a size as nginx rounds it, in seven columns.
func roundedSize(size int64) string {
	round := func(unit int64) int64 { return size/unit + (size%unit)/(unit/2) }
	const kb, mb, gb = 1 << 10, 1 << 20, 1 << 30
	switch {
	case size > gb-1:
		return fmt.Sprintf("%6dG", round(gb))
	case size > mb-1:
		return fmt.Sprintf("%6dM", round(mb))
	case size > 9999:
		return fmt.Sprintf("%6dK", round(kb))
	}
	return fmt.Sprintf(" %6d", size)
}

// escapeListed escapes a text for HTML and XML.
func escapeListed(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(html.EscapeString(s), "&#34;", "&quot;"), "&#39;", "'")
}

// appendComponent appends a name. All characters that RFC 3986 does not call unreserved are
// percent-encoded.
func appendComponent(b []byte, name string) []byte {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b = append(b, c)
		default:
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return b
}

// listedType returns the type of an entry in JSON and XML.
func listedType(e *files.Entry) string {
	switch {
	case e.Dir:
		return "directory"
	case e.Regular:
		return "file"
	}
	return "other"
}

func appendJSONListing(b []byte, entries []files.Entry) []byte {
	b = append(b, '[')
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		e := &entries[i]
		b = append(appendJSON(append(b, "\r\n{ \"name\":\""...), e.Name), `", "type":"`...)
		b = append(append(b, listedType(e)...), `", "mtime":"`...)
		b = append(e.Modified.UTC().AppendFormat(b, http.TimeFormat), '"')
		if e.Regular {
			b = strconv.AppendInt(append(b, `, "size":`...), e.Size, 10)
		}
		b = append(b, " }"...)
	}
	return append(b, "\r\n]"...)
}

func appendXMLListing(b []byte, entries []files.Entry) []byte {
	b = append(b, "<?xml version=\"1.0\"?>\r\n<list>\r\n"...)
	for i := range entries {
		e := &entries[i]
		kind := listedType(e)
		b = fmt.Appendf(b, `<%s mtime="%s"`, kind, e.Modified.UTC().Format(time.RFC3339))
		if e.Regular {
			b = fmt.Appendf(b, ` size="%d"`, e.Size)
		}
		b = fmt.Appendf(b, ">%s</%s>\r\n", escapeListed(e.Name), kind)
	}
	return append(b, "</list>\r\n"...)
}

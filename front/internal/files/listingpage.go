package files

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// listedName is the width of names in a listing in HTML, in characters.
const listedName = 50

// Page is how a directory is listed in HTML: byte for byte as nginx does, because programs read it.
type Page struct {
	IsUTF8      bool // names are measured in characters, otherwise in bytes
	IsRounded   bool // sizes
	IsLocalTime bool // otherwise UTC
}

// Append appends the page of a directory, whose entries may be cut off.
func (p *Page) Append(b []byte, path string, entries []Entry, isCut bool) []byte {
	title := escapeListed(path)
	b = fmt.Appendf(b, "<html>\r\n<head><title>Index of %s</title></head>\r\n<body>\r\n<h1>Index of %s</h1><hr><pre>"+
		"<a href=\"../\">../</a>\r\n", title, title)
	for i := range entries {
		b = p.appendLine(b, &entries[i])
	}
	if isCut {
		b = fmt.Appendf(b, "The first %d names are shown; there are more.\r\n", len(entries))
	}
	return append(b, "</pre><hr></body>\r\n</html>\r\n"...)
}

func (p *Page) appendLine(b []byte, e *Entry) []byte {
	b = append(b, `<a href="`...)
	b = appendComponent(b, e.Name)
	if e.Dir {
		b = append(b, '/')
	}
	b = append(b, `">`...)
	length := len(e.Name)
	if p.IsUTF8 {
		length = utf8.RuneCountInString(e.Name)
	}
	if length > listedName {
		b = append(append(b, escapeListed(p.nameStart(e.Name, listedName-3))...), "..&gt;</a>"...)
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
	if p.IsLocalTime {
		at = e.Modified.Local()
	}
	b = at.AppendFormat(append(b, ' '), "02-Jan-2006 15:04 ")
	switch {
	case e.Dir && p.IsRounded:
		b = append(b, "      -"...)
	case e.Dir:
		b = append(b, "                  -"...)
	case p.IsRounded:
		b = append(b, roundedSize(e.Size)...)
	default:
		b = fmt.Appendf(b, "%19d", e.Size)
	}
	return append(b, "\r\n"...)
}

// nameStart returns the start of a name that is longer than n.
func (p *Page) nameStart(name string, n int) string {
	if !p.IsUTF8 {
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

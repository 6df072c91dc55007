package template

import "strings"

// Escape escapes text for HTML: between tags, and in attributes in double quotes. It escapes what
// html/template escapes.
func Escape(text string) string {
	if !strings.ContainsAny(text, "\x00\"&'+<>") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; c {
		case 0:
			b.WriteString("\uFFFD")
		case '"':
			b.WriteString("&#34;")
		case '&':
			b.WriteString("&amp;")
		case '\'':
			b.WriteString("&#39;")
		case '+':
			b.WriteString("&#43;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Package printable makes foreign text printable.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes the characters of a foreign text that would act on a terminal or end a line, and
// invalid UTF-8, as Go does in a string. The characters of except stay.
func Text(text, except string) string {
	var b strings.Builder
	for text != "" {
		c, n := utf8.DecodeRuneInString(text)
		switch {
		case c == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(c) || strings.ContainsRune(except, c):
			b.WriteRune(c)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
		text = text[n:]
	}
	return b.String()
}

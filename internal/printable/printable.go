// Package printable makes foreign text printable.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Text escapes the characters of a foreign text that would act on a terminal or end a line, as Go
// does in a string. Those of except stay.
func Text(text, except string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) || strings.ContainsRune(except, c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

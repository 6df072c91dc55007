// Package textbar draws numbers as bars of characters, and breaks lines of text.
package textbar

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Sparkline draws values as bars, from 0 to the greatest, in at most width columns. If there are
// more values, each bar is the mean of neighbors.
func Sparkline(values []float64, width int) string {
	values = thin(values, width)
	if len(values) == 0 {
		return ""
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(values)
	var s strings.Builder
	for _, v := range values {
		bar := 0
		if most > 0 {
			bar = int(v/most*float64(len(bars)-1) + 0.5)
		}
		s.WriteRune(bars[bar])
	}
	return s.String()
}

// thin returns at most n values, means of neighbors.
func thin(values []float64, n int) []float64 {
	if n < 1 || len(values) <= n {
		return values
	}
	few := make([]float64, n)
	for i := range few {
		from, to := i*len(values)/n, (i+1)*len(values)/n
		for _, v := range values[from:to] {
			few[i] += v / float64(to-from)
		}
	}
	return few
}

// Bar draws a share, 0 to 1, of width columns with a resolution of an eighth of a column.
func Bar(share float64, width int) string {
	eighths := int(share*float64(8*width) + 0.5)
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}

// Columns is the width of a terminal for which text is written.
const Columns = 80

// Wrap breaks text at spaces into lines of at most width columns, joined by a line break and the
// indent. A longer word stays whole.
func Wrap(text string, width int, indent string) string {
	var s strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			s.WriteString("\n" + indent)
			used = 0
		default:
			s.WriteByte(' ')
			used++
		}
		s.WriteString(word)
		used += n
	}
	return s.String()
}

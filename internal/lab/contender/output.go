package contender

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Printable escapes the control characters of a program's output, except for line breaks and tabs:
// on a terminal they would act.
func Printable(output []byte) string {
	var b strings.Builder
	for _, c := range string(output) {
		if c == '\n' || c == '\t' || !unicode.IsControl(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

// Printed returns, to follow an error, the last line that each process printed, and below it the
// lines before; "" without output.
func (r *Running) Printed() string {
	var last, all strings.Builder
	for _, p := range r.parts {
		line, more := quote(tail(p.log))
		if line != "" {
			fmt.Fprintf(&last, "; %s printed: %s", p.role, line)
		}
		all.WriteString(more)
	}
	return last.String() + all.String()
}

// Limits of a program's output in an error.
const (
	longestLine = 200 // characters in the first line
	shownLines  = 12  // below it
)

// quote returns the last line of a program's output, or the message of its panic, shortened. more
// is the output, below it, if that is longer.
func quote(output string) (line, more string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	line = strings.TrimSpace(lines[len(lines)-1])
	if isPanic(lines[0]) {
		line = lines[0]
	}
	runes := []rune(line)
	if len(runes) > longestLine {
		line = string(runes[:longestLine]) + "…"
	}
	if len(lines) > 1 || len(runes) > longestLine {
		more = "\n    " + strings.Join(lines, "\n    ")
	}
	return line, more
}

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// Quoted returns a program's output as it follows an error: its last line, and below it the last
// lines, if it has more.
func Quoted(output []byte) string {
	line, more := quote(lastLines(output))
	return line + more
}

// lastLines returns the last lines of an output. After a panic it returns the first lines of the
// panic, because a list of goroutines follows.
func lastLines(output []byte) string {
	lines := strings.Split(strings.TrimSpace(Printable(output)), "\n")
	from := max(0, len(lines)-shownLines)
	if i := slices.IndexFunc(lines, isPanic); i >= 0 {
		from = i
	}
	return strings.Join(lines[from:min(len(lines), from+shownLines)], "\n")
}

// tail returns the last lines of a log, or "".
func tail(f *os.File) string {
	const most = 64 << 10
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(most, info.Size()))
	n, _ := f.ReadAt(b, info.Size()-int64(len(b)))
	return lastLines(b[:n])
}

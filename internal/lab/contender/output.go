package contender

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// maxOutput is the maximum of Output, in bytes.
const maxOutput = 1 << 20

// Output returns the output of a role's process, at most the last maxOutput bytes. If the contender
// has no such role, it returns nil.
func (r *Running) Output(role string) ([]byte, error) {
	p, err := r.part(role)
	if err != nil {
		return nil, nil
	}
	return lastBytes(p.log, maxOutput)
}

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

// lastBytes returns the end of a file, at most so many bytes.
func lastBytes(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(most, info.Size()))
	n, err := f.ReadAt(b, info.Size()-int64(len(b)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
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
	shownLines  = 8   // below it
)

// quote returns the last line of a program's output, shortened, and if there are more lines all of
// them, below.
func quote(output string) (last, more string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	runes := []rune(strings.TrimSpace(lines[len(lines)-1]))
	if last = string(runes[:min(len(runes), longestLine)]); len(runes) > longestLine {
		last += "…"
	}
	if len(lines) > 1 || len(runes) > longestLine {
		more = "\n    " + strings.Join(lines, "\n    ")
	}
	return last, more
}

// tail returns the last lines of a log.
func tail(f *os.File) string {
	const most = 4 << 10
	b, err := lastBytes(f, most)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(Printable(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
}

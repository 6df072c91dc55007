package contender

import (
	"errors"
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

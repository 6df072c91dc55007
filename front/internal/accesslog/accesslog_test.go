package accesslog_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/internal/testkit"
)

// Text of a client never ends a field or a line.
func FuzzEscape(f *testing.F) {
	f.Add("/\" 200 1\n\x00\x7f\\é")
	f.Add("\"\r\n\t\\ \xff ü\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		testkit.Equal(t, json.Valid(append(accesslog.AppendJSON([]byte{'"'}, text), '"')), true, "JSON of", text)
		for _, c := range accesslog.AppendEscaped(nil, text) {
			if c < ' ' || c > '~' || c == '"' {
				t.Errorf("%q is escaped with %q in it", text, c)
			}
		}
	})
}

// The line about lost lines has the format of any other.
func TestLineAboutLostLinesIsParsable(t *testing.T) {
	why := errors.New(`disk "full"`)
	want := `^- - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "12 lines lost: disk \\x22full\\x22" 0 - "-" "-"\n$`
	testkit.Matches(t, string(accesslog.Lost(12, why)), want)
	var object struct {
		Lost int
		Why  string
	}
	line := accesslog.LostJSON(12, why)
	if err := json.Unmarshal(line, &object); err != nil || object.Lost != 12 || object.Why != why.Error() ||
		!strings.HasSuffix(string(line), "}\n") {
		t.Errorf("%+v, %v", object, err)
	}
}

// Each file is opened once for the lines that are written together. Lines without a file are
// reported.
func TestFilesOfManyAreOpenedForTheirLines(t *testing.T) {
	dir, opened := t.TempDir(), ""
	var reports []string
	out := accesslog.Many(func(path string) (io.WriteCloser, error) {
		opened += filepath.Base(path)
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}, func(text string) { reports = append(reports, text) })
	write := func(names ...string) {
		var lines []byte
		for i, name := range names {
			lines = append(accesslog.AppendPath(lines, filepath.Join(dir, name)), strconv.Itoa(i)+"\nsecond line\n"...)
		}
		testkit.Equal(t, testkit.Value(out.Write(lines))(t), len(lines), names)
	}
	read := func(name string) string { return string(testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)) }
	write("a", "b", "a")
	testkit.Check(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "renamed")))
	write("b", "none/x", "a")
	write("none/x")
	write("none/x")
	testkit.Equal(t, opened, "abbxaxx", "the opened files")
	testkit.Matches(t, strings.Join(reports, "|"), "^2 lines lost: [^|]*$")
	testkit.Check(t, out.Close())
	testkit.Matches(t, strings.Join(reports, "|"), `^2 lines lost: [^|]*\|4 lines lost: [^|]*$`, "after Close")
	testkit.Equal(t, read("renamed"), "0\nsecond line\n2\nsecond line\n")
	testkit.Equal(t, read("a"), "2\nsecond line\n")
	testkit.Equal(t, read("b"), "1\nsecond line\n0\nsecond line\n")
}

// Files can be closed while a line is written, which may block, and no other line is written then.
func TestManyFilesCloseWhileWriting(t *testing.T) {
	dir, opening, goOn := t.TempDir(), make(chan string), make(chan bool)
	var reports []string
	out := accesslog.Many(func(path string) (io.WriteCloser, error) {
		opening <- filepath.Base(path)
		<-goOn
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}, func(text string) { reports = append(reports, text) })
	written := make(chan error)
	go func() {
		lines := append(accesslog.AppendPath(nil, filepath.Join(dir, "a")), "1\n"...)
		lines = append(accesslog.AppendPath(lines, filepath.Join(dir, "b")), "2\n"...)
		_, err := out.Write(lines)
		written <- err
	}()
	testkit.Equal(t, <-opening, "a")
	testkit.Check(t, out.Close())
	close(goOn)
	select {
	case err := <-written:
		testkit.Check(t, err)
		testkit.Matches(t, strings.Join(reports, "|"), "^1 lines lost: [^|]*$")
	case path := <-opening:
		t.Errorf("%s was opened", path)
	}
	testkit.Check(t, out.Close())
}

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
	"testing/synctest"
	"time"

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

// Files stay open while they are used, up to a number. What cannot be opened is reported.
func TestFilesOfManyStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, opened := t.TempDir(), ""
		var reports []string
		out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
			opened += filepath.Base(path)
			return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}, func(text string) { reports = append(reports, text) })()
		testkit.Must(t, err)
		write := func(name, line string) {
			b := append(accesslog.AppendPath(nil, filepath.Join(dir, name)), line...)
			testkit.Equal(t, testkit.Value(out.Write(b))(t), len(b), name)
		}
		for i, file := range []string{"a", "a", "b", "a"} {
			write(file, strings.Repeat("x", i)+"\nsecond line\n")
		}
		time.Sleep(time.Minute)
		write("b", "later\n")
		for i := range 65 {
			write(strconv.Itoa(10+i), "another\n")
		}
		write("b", "last\n")
		testkit.Matches(t, opened, "^abb10.*74b$", "the opened files")
		for range 3 {
			write("none/x", "lost\n")
		}
		testkit.Matches(t, strings.Join(reports, "|"), "^1 lines lost: [^|]*$")
		testkit.Check(t, out.Close())
		testkit.Matches(t, strings.Join(reports, "|"), `^1 lines lost: [^|]*\|2 lines lost: [^|]*$`, "after Close")
		got := testkit.Value(os.ReadFile(filepath.Join(dir, "a")))(t)
		testkit.Equal(t, string(got), "\nsecond line\nx\nsecond line\nxxx\nsecond line\n")
	})
}

// A file that was renamed is soon not used any more.
func TestRenamedFileOfManyIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
			return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}, func(text string) { t.Error(text) })()
		testkit.Must(t, err)
		defer out.Close()
		for _, name := range []string{"first", "second"} {
			testkit.Value(out.Write(append(accesslog.AppendPath(nil, path), "line\n"...)))(t)
			testkit.Check(t, os.Rename(path, path+name))
			time.Sleep(time.Second)
			testkit.Equal(t, string(testkit.Value(os.ReadFile(path+name))(t)), "line\n", name)
		}
	})
}

// Files can be closed while a line is written, which may block, and no other line is written then.
func TestManyFilesCloseWhileWriting(t *testing.T) {
	dir, opening, goOn := t.TempDir(), make(chan string), make(chan bool)
	var reports []string
	out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
		opening <- filepath.Base(path)
		<-goOn
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}, func(text string) { reports = append(reports, text) })()
	testkit.Must(t, err)
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

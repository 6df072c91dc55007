package accesslog_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/accesslog"
)

// Files stay open as the cache says, and only as long as their paths lead to them.
func TestFilesOfManyStayOpen(t *testing.T) {
	const forever = time.Hour
	for name, c := range map[string]struct {
		cache accesslog.Cache
		opens string // files that are opened for lines to a, a, b, a
	}{
		"none":     {accesslog.Cache{}, "aaba"},
		"all":      {accesslog.Cache{Max: 2, MinUses: 1, Inactive: forever, Valid: forever}, "ab"},
		"one":      {accesslog.Cache{Max: 1, MinUses: 1, Inactive: forever, Valid: forever}, "aba"},
		"used":     {accesslog.Cache{Max: 2, MinUses: 2, Inactive: forever, Valid: forever}, "aab"},
		"inactive": {accesslog.Cache{Max: 2, MinUses: 1, Valid: forever}, "aaba"},
	} {
		dir, opened := t.TempDir(), ""
		var reports []string
		out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
			opened += filepath.Base(path)
			return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}, c.cache, func(text string) { reports = append(reports, text) })()
		if err != nil {
			t.Fatal(err)
		}
		write := func(name, line string) {
			b := append(accesslog.AppendPath(nil, filepath.Join(dir, name)), line...)
			if n, err := out.Write(b); n != len(b) || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		for i, file := range []string{"a", "a", "b", "a"} {
			write(file, strings.Repeat("x", i)+"\nsecond line\n")
		}
		if opened != c.opens {
			t.Errorf("%s: opened %q, want %q", name, opened, c.opens)
		}
		write("none/x", "lost\n")
		if len(reports) != 1 || !strings.HasPrefix(reports[0], "1 lines lost: ") {
			t.Errorf("%s: %q", name, reports)
		}
		if opened = ""; name == "all" { // what cannot be opened takes no place
			write("b", "b\n")
			write("none/y", "lost\n")
			if write("b", "b\n"); opened != "by" {
				t.Errorf("opened %q, want b once", opened)
			}
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "a"))
		if want := "\nsecond line\nx\nsecond line\nxxx\nsecond line\n"; string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A file that was renamed is not used any more.
func TestRenamedFileOfManyIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}, accesslog.Cache{Max: 1, MinUses: 1, Inactive: time.Hour}, func(text string) { t.Error(text) })()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, name := range []string{path, path + ".1"} {
		if _, err := out.Write(append(accesslog.AppendPath(nil, path), "line\n"...)); err != nil {
			t.Error(err)
		}
		if err := os.Rename(path, name+".old"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{path + ".old", path + ".1.old"} {
		if got, err := os.ReadFile(name); string(got) != "line\n" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Files can be closed while a line is written, which may block, and no other line is written then.
func TestManyFilesCloseWhileWriting(t *testing.T) {
	dir, opening, goOn := t.TempDir(), make(chan string), make(chan bool)
	var reports []string
	out, err := accesslog.Many(func(path string) (io.WriteCloser, error) {
		opening <- filepath.Base(path)
		<-goOn
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}, accesslog.Cache{Max: 9, MinUses: 1, Inactive: time.Hour, Valid: time.Hour},
		func(text string) { reports = append(reports, text) })()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		lines := append(accesslog.AppendPath(nil, filepath.Join(dir, "a")), "1\n"...)
		lines = append(accesslog.AppendPath(lines, filepath.Join(dir, "b")), "2\n"...)
		_, err := out.Write(lines)
		written <- err
	}()
	if got := <-opening; got != "a" {
		t.Fatal(got)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	close(goOn)
	select {
	case err := <-written:
		if len(reports) != 1 || !strings.HasPrefix(reports[0], "1 lines lost: ") || err != nil {
			t.Errorf("%q, %v", reports, err)
		}
	case path := <-opening:
		t.Errorf("%s was opened", path)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

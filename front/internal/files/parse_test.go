package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func planOf(t testing.TB, c Config) *plan {
	t.Helper()
	c.Dir = "x"
	return testkit.Value(compile(c))(t)
}

func TestPlaceNormalizesPaths(t *testing.T) {
	p, dotfiles := planOf(t, Config{}), planOf(t, Config{Dotfiles: true})
	for path, want := range map[string]int{"/.hidden": 0, "/d/.well-known/x": 0, "/../x": 400} {
		_, _, status := dotfiles.place(path)
		testkit.Equal(t, status, want, "with dotfiles", path)
	}
	for _, test := range []struct {
		path, name string
		dir        bool
		status     int
	}{
		{"", "", true, 0}, {"/", "", true, 0}, {"//", "", true, 0}, {"/.", "", true, 0}, {"/a", "a", false, 0},
		{"a", "a", false, 0},
		{"/a/", "a", true, 0}, {"/a/.", "a", true, 0}, {"//a//b", "a/b", false, 0}, {"/./a/./b/", "a/b", true, 0},
		{"/..", "", false, 400}, {"/a/..", "", false, 400}, {"/a/../b", "", false, 400}, {"/.x/..", "", false, 400},
		{"/a\x00", "", false, 400},
		{"/...", "", false, 404}, {"/.a", "", false, 404}, {"/.well-known/a", ".well-known/a", false, 0},
		{"/a/.well-known", "", false, 404},
		{"/console", "console", false, 0}, {"/com", "com", false, 0}, {"/com10", "com10", false, 0},
		{"/x.con", "x.con", false, 0}, {"/common.css", "common.css", false, 0},
		{"/" + strings.Repeat("a", 255), strings.Repeat("a", 255), false, 0},
		{"/" + strings.Repeat("a", 256), "", false, 404}, {strings.Repeat("/a", 2049), "", false, 404},
	} {
		name, dir, status := p.place(test.path)
		if name != test.name || dir != test.dir || status != test.status {
			t.Errorf("%.50q: %.50q %v %d, want %.50q %v %d", test.path, name, dir, status, test.name, test.dir,
				test.status)
		}
	}
}

// Names that Windows treats as something else are rejected there, and only there.
func TestMisreadNamesAreRejectedOnWindows(t *testing.T) {
	p := planOf(t, Config{})
	for _, name := range []string{"a:b", `a\b`, "con", "CoN.txt", "nul .txt", "com1", "com¹.x", "lpt0", "conout$",
		"a.", "a ", "aux.js", "x.txt::$DATA"} {
		testkit.Equal(t, isMisread(name), true, name)
		want := 0
		if runtime.GOOS == "windows" {
			want = 404
		}
		_, _, status := p.place("/" + name)
		testkit.Equal(t, status, want, name)
	}
	for _, name := range []string{"console", "com", "com10", "x.con", "common.css", "a.b", "a b", "a-b"} {
		testkit.Equal(t, isMisread(name), false, name)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/a//b/./c/", "/\x00", `/a\..\b`, "/con.txt", "/.git/config", "/a:b",
		"//", "..", "/%2e", "/. ./a", "/\xff"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, path string, dotfiles bool) {
		p := planOf(t, Config{Dotfiles: dotfiles})
		name, dir, status := p.place(path)
		if status != 0 {
			if name != "" || dir || status != 400 && status != 404 {
				t.Fatalf("refused with %d: %q", status, name)
			}
			return
		}
		if name != "" && (!fs.ValidPath(strings.ToValidUTF8(name, "?")) || !filepath.IsLocal(name)) ||
			strings.Contains(name, "\x00") || runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`) {
			t.Fatalf("%q is %q", path, name)
		}
		again, dirAgain, status := p.place(key(name, dir))
		if again != name || dirAgain != dir || status != 0 {
			t.Fatalf("the key of %q, %q, is %q", path, key(name, dir), again)
		}
		for segment := range strings.SplitSeq(name, "/") {
			if strings.HasPrefix(segment, ".") && !dotfiles && !strings.HasPrefix(name, ".well-known") {
				t.Fatalf("%q serves %q", path, name)
			}
		}
	})
}

func FuzzAcceptEncoding(f *testing.F) {
	for _, s := range []string{"gzip", "br;q=1.0, gzip;q=0.8, *;q=0.1", "identity;q=0", ";;;,,,", "gzip;q=1.0001", "*",
		"gzip ; q = 0.5", "gzip;q=0.5;x"} {
		f.Add(s)
	}
	p := planOf(f, Config{})
	f.Fuzz(func(t *testing.T, value string) {
		w := parseAcceptEncoding(value, &p.codings)
		for i, q := range w.codings {
			if q < 0 || q > 1000 || q > 0 && !strings.Contains(value, "*") &&
				!strings.Contains(strings.ToLower(value), p.codings[i].token) {
				t.Fatalf("%q: %v", value, w)
			}
		}
		if w.identity < -1 || w.identity > 1000 {
			t.Fatalf("%q: %v", value, w)
		}
	})
}

func FuzzETags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a", "b"`, "*", `"`, `,,"x"`, `"a" "x"`, "W/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if listed(list, `"x"`, true) && list != "" && !strings.Contains(list, `"x"`) &&
			strings.Trim(list, " \t") != "*" {
			t.Fatalf("%q", list)
		}
		if listed(list, `"x"`, false) && !listed(list, `"x"`, true) {
			t.Fatalf("%q: strong match without weak match", list)
		}
	})
}

func TestErrorsHaveStatus(t *testing.T) {
	for err, want := range map[error]int{
		fs.ErrNotExist: 404, fs.ErrPermission: 403, errIrregular: 404, errors.New("path escapes from parent"): 404,
		fs.ErrClosed: 503,
	} {
		testkit.Equal(t, statusOf(&fs.PathError{Op: "open", Path: "x", Err: err}), want, err)
	}
}

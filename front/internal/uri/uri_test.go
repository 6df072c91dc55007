package uri

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestPathIsCleaned(t *testing.T) {
	for _, test := range []struct{ in, want, kept string }{ // "": invalid
		{"/", "/", "/"}, {"/a", "/a", "/a"}, {"/a/", "/a/", "/a/"}, {"//", "/", "//"}, {"/a//b", "/a/b", "/a//b"},
		{"/a/./b", "/a/b", "/a/b"}, {"/a/../b", "/b", "/b"},
		{"/a/b/..", "/a/", "/a/"}, {"/a/.", "/a/", "/a/"}, {"/a/..", "/", "/"}, {"/..", "", ""}, {"/../a", "", ""},
		{"/a/../../b", "", ""}, {"/.", "/", "/"}, {"/.a/..b/c.", "/.a/..b/c.", "/.a/..b/c."},
		{"/...", "/...", "/..."}, {"/a//../b", "/b", "/a/b"}, {"/a//", "/a/", "/a//"}, {"", "", ""}, {"a", "", ""},
		{"*", "", ""}, {"/a\x00b", "", ""}, {"/./a\x00", "", ""}, {"/a%2e/b", "/a%2e/b", "/a%2e/b"},
	} {
		for _, kept := range []bool{false, true} {
			want := test.want
			if kept {
				want = test.kept
			}
			if got, ok := CleanPath(test.in, kept); got != want || ok != (want != "") {
				t.Errorf("%q, slashes kept %v: %q %v, want %q", test.in, kept, got, ok, want)
			}
		}
	}
}

// A path is cleaned as by package path, except for a slash at its end, and cleaning it again
// changes nothing.
func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b//c/./", "/..", "//a", "/a/..", "/%2e/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := CleanPath(s, false)
		depth, above := 0, false
		for segment := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
			switch segment {
			case "..":
				depth--
			case "", ".":
			default:
				depth++
			}
			above = above || depth < 0
		}
		if want := strings.HasPrefix(s, "/") && !above && !strings.Contains(s, "\x00"); ok != want {
			t.Fatalf("%q: %v, want %v", s, ok, want)
		}
		if !ok {
			return
		}
		want := path.Clean(s)
		if last := s[strings.LastIndexByte(s, '/')+1:]; want != "/" && (last == "" || last == "." || last == "..") {
			want += "/"
		}
		testkit.Equal(t, got, want, s)
		if twice, ok := CleanPath(got, false); !ok || twice != got {
			t.Errorf("%q: %q, and then %q", s, got, twice)
		}
		kept, ok := CleanPath(s, true)
		if again, _ := CleanPath(kept, false); !ok || strings.Contains(kept+"/", "/../") ||
			strings.Contains(kept+"/", "/./") || again == "" {
			t.Errorf("%q: %q with its slashes", s, kept)
		}
	})
}

// A path is escaped as by a client.
func FuzzEscape(f *testing.F) {
	f.Add("/a b%?#ä\x00&+;")
	f.Fuzz(func(t *testing.T, s string) {
		for _, escaped := range []string{EscapePath(s), EscapeArgument(s)} {
			testkit.Equal(t, testkit.Value(url.PathUnescape(escaped))(t), s, "without the escapes of", escaped)
			if strings.ContainsAny(escaped, " ?#\r\n\x00") {
				t.Errorf("%q is %q", s, escaped)
			}
		}
		if strings.ContainsAny(EscapeArgument(s), "&+;") {
			t.Errorf("%q is %q in a query", s, EscapeArgument(s))
		}
	})
}

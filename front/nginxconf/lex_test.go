package nginxconf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

// words returns words as they are written.
func words() []string {
	return []string{
		`a`, `"a b"`, `'a b'`, `"a;b{c}d#e"`, `a"b`, `a'b"c`, `"a'b"`, `'a"b'`, `a\ b`, `a\;b`, `a\{b`, `a\"b`, `a\'b`,
		`a\\b`, `a\tb`, `a\rb`, `"a\"b"`, `'a\'b'`, `"a\\"`, `"a\tb"`, `"a\zb"`, `a\zb`, `\a`, `\"a`, `\#a`, `a#b`,
		`${a}b`, `a${b}c`, `$a`, `a}b`, `a$`, `"${a b}"`, `${{a}}`, `a,b`, `(a)`, `ä`, `\\`, `\\\\`, `\\t`, `"$a{b"`, `a\`,
	}
}

func TestStatementsAreSplit(t *testing.T) {
	text := "a b;\n# no\n\tc 'd\ne' {\r\n}f{}g \"\";if ($a = \"b\"){h;}"
	tree, errs, err := syntax.Parse("nginx.conf", &syntax.Source{FS: oneFile(text)}, nil)
	if errs != nil || err != nil {
		t.Fatal(errs, err)
	}
	var b strings.Builder
	for _, d := range tree {
		fmt.Fprintf(&b, "%q %q %d:%d %d\n", d.Name, d.Args, d.Pos.Line, d.Pos.Column, len(d.Block))
	}
	testkit.Equal(t, b.String(), `"a" ["b"] 1:1 0
"c" ["d\ne"] 3:2 0
"f" [] 5:2 0
"g" [""] 5:5 0
"if" ["($a" "=" "b" ")"] 5:10 1
`)
}

// Any input is parsed in limited time and memory, and all messages refer to places in it.
func FuzzParse(f *testing.F) {
	for _, written := range words() {
		f.Add("events {} " + written + " ;")
	}
	f.Add("events {} http { server { listen 80; location / { return 200 'a'; } } }")
	f.Add("http { upstream a { server b; } map $a $b { default c; ~d e; } geo $f { 10.0.0.0/8 g; } split_clients $h $i { 5% j; * k; } }")
	f.Add("http { server { location ~ x { proxy_pass http://$a/b; proxy_redirect default; if ($a ~ b) { set $c d; } } } }")
	f.Add("include nginx.conf; include *; include [; a { include nginx.conf; }")
	f.Add("content_by_lua_block { a = '}' }")
	f.Add(strings.Repeat("a {", 200))
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<13 {
			return
		}
		fsys := oneFile(text)
		result, err := Parse("nginx.conf", Options{FS: fsys, Lenient: true, DefaultPort: 80})
		lines := strings.Count(text, "\n") + 1
		for _, m := range messages(t, result, err) {
			if m.File == "nginx.conf" && (m.Line < 1 || m.Line > lines || m.Column < 0 || m.Column > len(text)+1) {
				t.Errorf("%q: %v is at line %d, column %d", text, m, m.Line, m.Column)
			}
		}
	})
}

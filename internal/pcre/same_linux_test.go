package pcre

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// compiles reports whether nginx accepts an expression.
func compiles(t *testing.T, bin string, env []string, dir, expression string) bool {
	t.Helper()
	conf := filepath.Join(dir, "one.conf")
	testkit.WriteFile(t, conf, "pid "+dir+"/p1; error_log stderr; events {} http { map $uri $m { "+quoted("~"+expression)+
		" 1; } }")
	c := exec.Command(bin, "-t", "-p", dir, "-c", conf)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "pcre2_compile") && !strings.Contains(string(out), "regex") {
		t.Logf("%s: %s", expression, out)
	}
	return err == nil
}

// quoted returns a word of nginx.conf.
func quoted(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

// An expression that nginx accepts matches the same here, or is rejected. One that nginx rejects is
// rejected.
func TestMatchesAreThoseOfNginx(t *testing.T) {
	tool, dir := programs.Nginx(t), t.TempDir()
	rejected := []string{`\X`, `(?J)a`, `(?xx)[a b]`, `[\Qa-z\E]`, `(?-1)`, `[\N]`, `(*UTF8)é`, `(*UTF).`, `(a)\g1`,
		`(a)\g{-1}`, `(a)(b)\g{-2}`, `(?<n4>a)\g{n4}`, `\g{+1}(a)`, `(?|(a)x|(b)y)`, `(a)?(?(1)b|c)`,
		`(?<n6>a)?(?(<n6>)b|c)`, `(?<n7>a)?(?(n7)b)`, `(?(?=a)ab|cd)`, `(?(?!a)b|a)`, `(?U)a+`, `(?U)a+?`,
		`(?^)a`, `(?n)(a)(?<n5>b)`, `\o{141}`, `\cA`, `\p{^L}`, `\p{Latin}`}
	var good []string
	var regexps []*Regexp
	var maps, values strings.Builder
	for _, e := range expressions() {
		re, err := Compile(e, false)
		theirs := compiles(t, tool.Bin, tool.Env, dir, e)
		if theirs != (err == nil) && (!theirs || !slices.Contains(rejected, e)) {
			t.Errorf("%s: nginx: %v, here: %v", e, theirs, err)
		}
		if !theirs || err != nil {
			continue
		}
		n := len(good)
		fmt.Fprintf(&maps, "map $uri $m%d { default no; %s \"y[$1][$2][$3]\"; }\n", n, quoted("~"+e))
		fmt.Fprintf(&values, "location /%d/ { rewrite ^/%d(/.*)$ $1; }\n", n, n)
		good, regexps = append(good, e), append(regexps, re)
	}
	var body strings.Builder
	for i := range good {
		fmt.Fprintf(&body, "add_header M%d $m%d;\n", i, i)
	}
	socket := filepath.Join(dir, "s")
	conf := filepath.Join(dir, "conf")
	testkit.WriteFile(t, conf, "daemon off; master_process off; pid "+dir+"/pid; error_log "+dir+
		"/error.log; events {} http { access_log off; map_hash_bucket_size 512; variables_hash_max_size 8192; variables_hash_bucket_size 512; merge_slashes off; "+
		"client_body_temp_path "+dir+"/b; proxy_temp_path "+dir+"/p; fastcgi_temp_path "+dir+"/f; uwsgi_temp_path "+
		dir+"/u; scgi_temp_path "+dir+"/c;"+
		maps.String()+"server { listen unix:"+socket+"; location / { "+body.String()+" return 200 x; } } }")
	programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	for _, s := range subjects() {
		header := request(t, socket, s)
		for i, re := range regexps {
			bounds, err := re.Find(s, new(Budget))
			want := header.Get(fmt.Sprintf("M%d", i))
			if want == "" || err != nil {
				if want != "" {
					continue
				}
				t.Errorf("%s, %q: nginx has %q, here %v", good[i], s, want, err)
				continue
			}
			if got := shown(s, bounds); got != want && !strings.Contains(want, "\n") && !strings.Contains(got, "\n") {
				t.Errorf("%s, %q: %q, nginx has %q", good[i], s, got, want)
			}
		}
	}
}

// request requests a path, and returns the response's header.
func request(t *testing.T, socket, path string) http.Header {
	t.Helper()
	c := testkit.Value(net.Dial("unix", socket))(t)
	defer func() { _ = c.Close() }()
	escaped := ""
	for i := range len(path) {
		if c := path[i]; isWord(c) || c == '/' || c == '.' {
			escaped += string(c)
		} else {
			escaped += fmt.Sprintf("%%%02X", c)
		}
	}
	fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", escaped)
	b := testkit.Value(io.ReadAll(bufio.NewReader(c)))(t)
	header := make(http.Header)
	head, _, _ := strings.Cut(string(b), "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			header.Add(name, value)
		}
	}
	return header
}

// generator makes expressions of all kinds that may be optimized, and subjects for them.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) word() string {
	var b strings.Builder
	for range 1 + g.IntN(4) {
		if b.WriteString(g.pick("a", "b", "k", "s", "-", "ab", "B", "bot")); g.IntN(12) == 0 {
			b.WriteString("é")
		}
	}
	return b.String()
}

func (g generator) alternatives(depth int) string {
	var all []string
	for range 2 + g.IntN(5) {
		switch g.IntN(12) {
		case 0:
			all = append(all, g.sequence(depth-1))
		case 1:
			all = append(all, g.word()+g.pick(".*", "[a-s]", `\w+`, "", `\b`)+g.word())
		default:
			all = append(all, g.word())
		}
	}
	return strings.Join(all, "|")
}

func (g generator) sequence(depth int) string {
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString(g.item(depth))
	}
	return b.String()
}

func (g generator) item(depth int) string {
	if depth <= 0 {
		return g.word()
	}
	item := ""
	switch kinds := 13; g.IntN(kinds) {
	case 0, 1:
		return g.word()
	case 2:
		item = "[" + g.pick("", "^") + g.pick("ab", "k-s", `\d-`, "é", `a\W`) + "]"
	case 3:
		item = g.pick(".", `\w`, `\W`, `\d`, `\s`)
	case 4:
		return g.pick(`\b`, `\B`, "^", "$", `\A`, `\z`)
	case 5, 6:
		item = "(" + g.alternatives(depth-1) + ")"
	case 7:
		item = "(?:" + g.alternatives(depth-1) + ")"
	case 8:
		item = g.pick("(", "(?:", "(?i:", "(?-i:") + g.sequence(depth-1) + ")"
	case 9:
		return g.pick("(?=", "(?!", "(?>", "(?<!", "(?<=") + g.alternatives(depth-1) + ")"
	case 10:
		item = g.pick(".*", ".+", ".*?", `\w*`, "[^-]+")
	case 11:
		return g.pick(`\1`, `(a)?\1`, `\K`)
	default:
		item = g.word()
	}
	if g.IntN(3) == 0 {
		item += g.pick("*", "+", "?", "{1,2}", "{2}", "{2,}") + g.pick("", "", "", "?", "+")
	}
	return item
}

func (g generator) subject() string {
	var b strings.Builder
	for range g.IntN(3 + 20*g.IntN(2)) {
		if b.WriteString(g.word()); g.IntN(8) == 0 {
			b.WriteString(g.pick(" ", "\n", "K", "\u212a", "É", "1"))
		}
	}
	s := b.String()
	if g.IntN(10) == 0 {
		s += "\xff\xc3"
	}
	if g.IntN(4) == 0 {
		s = strings.Repeat(s, 4)
	}
	return s
}

// escaped writes a text as pcre2test reads it, or prints it.
func escaped(s string, all bool) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > ' ' && c < 0x7f || c == ' ' && !all {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// printed returns a result as pcre2test prints it with the option aftertext.
func printed(s string, bounds []int) string {
	if bounds == nil {
		return "No match\n"
	}
	for len(bounds) > 2 && bounds[len(bounds)-2] < 0 {
		bounds = bounds[:len(bounds)-2]
	}
	out := ""
	for i := 0; i < len(bounds); i += 2 {
		text := "<unset>"
		if bounds[i] >= 0 {
			text = escaped(s[bounds[i]:bounds[i+1]], false)
		}
		if out += fmt.Sprintf("%2d: %s\n", i/2, text); i == 0 {
			out += fmt.Sprintf(" 0+ %s\n", escaped(s[bounds[1]:], false))
		}
	}
	return out
}

// generated is a generated expression with its subjects.
type generated struct {
	source   string
	fold     bool
	re       *Regexp
	subjects []string
}

// next returns an expression that Compile accepts, and writes it as pcre2test reads it.
func (g generator) next(to *bytes.Buffer) generated {
	for {
		source, options := g.pick("", "^", `\b`, ".*", "^.*"), "aftertext"
		if g.IntN(3) == 0 {
			source += g.sequence(3)
		} else {
			source += g.alternatives(3)
		}
		c := generated{source: source, fold: g.IntN(2) == 0}
		if c.fold {
			options += ",caseless"
		}
		var err error
		if c.re, err = Compile(c.source, c.fold); err != nil {
			continue
		}
		fmt.Fprintf(to, "/%x/hex,%s\n", source, options)
		for range 6 {
			s := g.subject()
			c.subjects = append(c.subjects, s)
			fmt.Fprintf(to, "    %s\\\n", escaped(s, true)) // a last backslash makes no difference
		}
		to.WriteString("\n")
		return c
	}
}

// Generated expressions match as with PCRE: at first, with the index of the subject, and with
// memory of failures from the beginning.
func TestGeneratedMatchesAreThoseOfPCRE(t *testing.T) {
	testkit.NoRace(t, "it compares many matches in one goroutine")
	testkit.Long(t, "it compares many matches")
	bin, env := programs.Installed(t, "pcre2test", "pcre2-utils")
	count := 3000
	if testkit.Slow() {
		count = 100_000
	}
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var all []generated
	var in bytes.Buffer
	for range count {
		all = append(all, g.next(&in))
	}
	cmd := exec.Command(bin, "-q")
	cmd.Env, cmd.Stdin = env, &in
	out := testkit.Value(cmd.Output())(t)
	blocks := strings.Split(string(out), "\n\n")
	compared := 0
	for i, c := range all {
		for k, want := range results(blocks[i]) {
			if !strings.HasPrefix(want, "Failed") {
				compared++
				c.compare(t, c.subjects[k], want)
			}
		}
	}
	testkit.Between(t, compared, 5*count, 6*count, "results compared")
}

// results returns the results in a block of pcre2test's output, for each subject.
func results(block string) (all []string) {
	for line := range strings.Lines(block + "\n") {
		switch {
		case strings.HasPrefix(line, "    "):
			all = append(all, "")
		case len(all) > 0:
			all[len(all)-1] += line
		}
	}
	return all
}

func (c *generated) compare(t *testing.T, s, want string) {
	t.Helper()
	var b Budget
	for _, mode := range []string{"first", "indexed", "memo"} {
		bounds, err := c.re.Find(s, &b)
		if mode == "memo" {
			bounds, err = c.re.findWithMemo(s)
		}
		if errors.Is(err, ErrLimit) {
			return
		}
		if got := printed(s, bounds); got != want || err != nil {
			t.Errorf("%s (fold %v), %q, %s: %q %v, PCRE has %q", c.source, c.fold, s, mode, got, err, want)
			return
		}
	}
}

package pcre

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A match that needs too many steps fails, always after the same number, for each kind of step.
func TestMatchFailsAtTheLimit(t *testing.T) {
	testkit.NoRace(t, "it takes millions of steps in one goroutine")
	path := "/" + strings.Repeat("a", 3000)
	for _, e := range []string{`^/(?=(a+)+b)`, `^(?:a?)*+b|(?=(?:a|aa)+$)(?:/a)+b|(a|aa)+?\1b`,
		`^/(a+)+\1b`, `^/(?>(a|aa)*b|)(a|aa)*\1b`, `(.*)(.*)(.*)(.*)\4x`, `((a*)*)*\1b`, `(?!.*.*.*.*b)/`,
		`(?=/(?:a|aa|aaa)*b)/`} {
		re, err := Compile(e, false)
		testkit.Must(t, err)
		var b Budget
		for range 2 {
			used := b.Used
			if _, err = re.Find(path, &b); !errors.Is(err, ErrLimit) || b.Used-used != MatchLimit {
				t.Errorf("%s: %v after %d steps", e, err, b.Used-used)
			}
		}
		testkit.FailsWith(re.Match("/a", &b))(t, ErrBudget, e)
	}
}

// Nested repetitions end in polynomial time, unlike with PCRE, unless references or sub-programs
// depend on them.
func TestNestedRepetitionsEnd(t *testing.T) {
	testkit.NoRace(t, "it takes millions of steps in one goroutine")
	for _, e := range []string{`^(a+)+$`, `^(\w+\s?)*$`, `^(?!x)(a|aa)+$`, `(a*)*b`,
		`^(?:a|aa|aaa|ab)*$`, `(?:(?:a|b)*)*c`} {
		re := testkit.Value(Compile(e, false))(t)
		var b Budget
		if ok, err := re.Match(strings.Repeat("a", 2000)+"!", &b); ok || err != nil {
			t.Errorf("%s: %v, %v after %d steps", e, ok, err, b.Used)
		}
	}
}

// A list of names takes a few steps for each byte of the subject, as one expression or as many, and
// always the same number.
func TestListsOfNamesTakeFewSteps(t *testing.T) {
	t.Parallel()
	var names, grouped []string
	for i := range 300 {
		name := fmt.Sprintf("%c%cbot%d", 'a'+i%26, 'a'+i/26, i)
		names = append(names, name)
		grouped = append(grouped, "("+name+")")
	}
	list := strings.Join(names, "|")
	each := func(format string) (all []string) {
		for _, name := range names {
			all = append(all, fmt.Sprintf(format, name))
		}
		return all
	}
	subject := strings.Repeat("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Bot/1.0 ", 40)
	for name, sources := range map[string][]string{
		"alternatives": {list}, "group": {"(" + list + ")"}, "anchored": {"^(?:" + list + ")"},
		"words": {`\b(` + list + `)\b`}, "between anything": {"^.*(?:" + list + ").*$"},
		"nested": {"((" + list + ")|x(?:" + list + "))"},
		"groups": {strings.Join(grouped, "|")}, "with others": {list + "|x[a-z]+y|zz.*9"},
		"UTF-8": {"ä" + strings.Join(names, "|ö")},
		"many":  each("%s"), "many words": each(`\b(%s)\b`), "many with anything": each("AppleWebKit.*%s"),
		"many anchored": each("^%s"),
	} {
		var used []int
		for range 2 {
			var b Budget
			for _, source := range sources {
				re := testkit.Value(Compile(source, true))(t)
				if ok, err := re.Match(subject, &b); ok || err != nil {
					t.Errorf("%s: %v, %v", name, ok, err)
				}
			}
			used = append(used, b.Used)
		}
		if used[0] != used[1] || used[0] > 10*len(subject) {
			t.Errorf("%s: %d steps for %d bytes", name, used, len(subject))
		}
	}
}

func TestTooLargeProgramIsRejected(t *testing.T) {
	for _, e := range []string{`((a{1,100}){1,100}){1,100}\1`, `(?:(?:ab){1000}){1000}`, `(ab){65535}`,
		strings.Repeat("(", 300) + strings.Repeat(")", 300), strings.Repeat("()", 1001)} {
		testkit.Fails(Compile(e, false))(t, "")
	}
}

// Repetitions of empty programs cost nothing to compile.
func TestRepetitionOfEmptyProgramIsCheap(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"(?:)", "(?:ab){0}", "(?:(?:))", "(?:ab){0}(?:cd){0}"} {
		for range 20 {
			source = "(?:" + source + "){65535}"
		}
		re := testkit.Value(Compile(source+"x", false))(t)
		testkit.Equal(t, testkit.Value(re.Match("x", new(Budget)))(t), true, "it matches")
	}
}

// Alternatives within alternatives do not have tries without limit.
func TestTriesAreLimited(t *testing.T) {
	testkit.NoRace(t, "it compiles a large pattern in one goroutine")
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("%d-name", i))
	}
	source := strings.Join(names, "|")
	for range 200 {
		source = "(?:" + source + "|x|y)"
	}
	re := testkit.Value(Compile(source, false))(t)
	nodes := 0
	for _, i := range re.prog {
		if i.trie != nil {
			nodes += len(i.trie.nodes)
		}
	}
	testkit.Between(t, nodes, 1, 2*maxTrieNodes, "nodes")
	found := testkit.Value(re.Match(strings.Repeat("x", 100)+"1999-name", new(Budget)))(t)
	testkit.Equal(t, found, true, "it matches")
}

// Subjects and groups are bytes, and only ASCII letters have two cases.
func TestSubjectsAreBytes(t *testing.T) {
	for _, test := range []struct{ expression, subject, want string }{
		{"\xc0\xae", "/\xc0\xae", "y[][][]"}, {"^/(.)(.)$", "/é", "y[\xc3][\xa9][]"},
		{"(?i)k", "\u212a", "no"}, {"(?i)\xe9", "\xc9", "no"},
	} {
		re := testkit.Value(Compile(test.expression, false))(t)
		bounds := testkit.Value(re.Find(test.subject, new(Budget)))(t)
		testkit.Equal(t, shown(test.subject, bounds), test.want, test.expression, test.subject)
	}
}

// FuzzSame checks that what makes matches faster does not change them, and that nothing panics.
func FuzzSame(f *testing.F) {
	for _, e := range expressions() {
		f.Add(e, "/a.php", false)
		f.Add(e, "/ab\xe9cd\n", true)
	}
	f.Fuzz(func(t *testing.T, expression, subject string, fold bool) {
		if len(expression) > 200 || len(subject) > 200 {
			return
		}
		re, err := Compile(expression, fold)
		if err != nil {
			return
		}
		want, err := re.slow().Find(subject, new(Budget))
		for i := 0; i+1 < len(want); i += 2 {
			if (want[i] < 0) != (want[i+1] < 0) || want[i+1] > len(subject) {
				t.Fatalf("%q, %q: %v", expression, subject, want)
			}
		}
		if errors.Is(err, ErrLimit) {
			return
		}
		var b Budget
		for range 3 { // the second one makes an index of the subject
			if got, gotErr := re.Find(subject, &b); fmt.Sprint(got, gotErr) != fmt.Sprint(want, err) {
				t.Fatalf("%q, %q: %v %v, want %v %v", expression, subject, got, gotErr, want, err)
			}
		}
		if got, gotErr := re.findWithMemo(subject); err == nil && fmt.Sprint(got, gotErr) != fmt.Sprint(want, err) {
			t.Fatalf("%q, %q: %v %v with memory of failures, want %v %v", expression, subject, got, gotErr, want, err)
		}
	})
}

// slow returns the expression without what makes matches faster.
func (re *Regexp) slow() *Regexp {
	slow := &Regexp{names: re.names, prog: slices.Clone(re.prog), marks: re.marks}
	for i := range slow.prog {
		if in := &slow.prog[i]; in.op == instAlt {
			var all []trieText
			for alt := range in.targets {
				all = append(all, trieText{"", int32(alt)})
			}
			in.trie = new(trie)
			in.trie.nodes = []trieNode{{}}
			in.trie.build(all)
		}
	}
	return slow
}

// findWithMemo is like Find, but remembers failures from the beginning.
func (re *Regexp) findWithMemo(s string) ([]int, error) {
	m := new(Budget).start(re, s, MatchLimit)
	if re.memoSlots > 0 {
		m.memoBelow = m.limit + 1
	}
	if found, err := m.search(); !found || err != nil {
		return nil, err
	}
	return slices.Clone(m.caps), nil
}

// expressions are compared with nginx: whether they compile, whether they match, and their first
// groups.
func expressions() []string {
	return []string{
		`^/a`, `\.php$`, `(\d+)/(\w*)`, `a++`, `a++a`, `(a+)+b`, `(?>a+)b`, `(?>a|ab)c`, `a*+b`, `[ab]{2,3}+a`,
		`a{2}{3}`, `a**`, `a+*`, `^*`, `\b*`, `(?=a)*b`, `(?=a){2}a`,
		`(?!/b)`, `(?<!a)b`, `(?<=a|bb)c`, `(?<=a+)b`, `(?<=ab(?:c|d))e`, `(?<=ab(?:c|de))e`, `(.)\1`, `(?i)(.)\1`,
		`(?P<n1>a)(?P=n1)`, `(?<n2>a)\k<n2>`, `(?'n3'a)\k{n3}`, `(a)\g1`, `(a)\g{-1}`,
		`(a)(b)\g{-2}`, `(?<n4>a)\g{n4}`, `\Aa`, `/\z`, `b\Z`, `\h+`, `\H+$`, `\R`, `\v`, `\V+$`, `\N+`, `\Qa.b\E`,
		`\Qa.\E+`, `\Q\E+`, `[[:alpha:]]+`, `[[:^alpha:]]`, `[[:punct:]]`, `[[:nosuch:]]`, `[:alpha:]`,
		`[[.a.]]`, `[[:word:]-z]`, `[\d-z]`, `[a-\d]`, `[\d-]`, `[]a]`, `[^]a]`, `[]`, `[a`, `[z-a]`, `[\]]`, `[\b]`,
		`[a\-z]`, `[a-c-e]`, `[\x61-\x63]`, `[^\xff]+$`, `[\xe0-\xff]+`, `[\Qa-z\E]`,
		`(?#comment)a`, `a(?#comment)*`, `(?x) a b # c`, `(?x) a +`, `(?i)ABC`, `a(?i)b|c`, `(?i:A)b`, `(?-i)a`,
		`(?s).`, `(?m)^a`, `(?m)a$`, `(?U)a+`, `(?U)a+?`, `(?^)a`, `(?n)(a)(?<n5>b)`, `(?J)a`, `(?xx)[a b]`,
		`(a)?(?(1)b|c)`, `(?<n6>a)?(?(<n6>)b|c)`, `(?<n7>a)?(?(n7)b)`, `(?(?=a)ab|cd)`, `(?(?!a)b|a)`,
		`(?(1)a|b|c)(x)`, `(a)|(b)`, `(?|(a)x|(b)y)`, `((a)|b)*`, `(a*)*`, `(a*)+`, `(a|b)*?c`, `(|a)+`, `(?:a?)*b`,
		`(a?)*?b`,
		`\pL+`, `\p{Lu}`, `\P{L}`, `\p{^L}`, `\p{Latin}`, `\p{Nosuch}`, `\X`, `\C`, `a\Kb`, `\Ga`, `\x`, `\x6`, `\x61`,
		`\x{61}`, `\x{100}`, `\o{141}`, `\141`, `\0`, `\08`, `\12`, `\81`, `(a)\2`, `\1(a)`, `\cA`, `\e`,
		`\y`, `\i`, `\_`, `\-`, `\/`, `a{,3}`, `a{2`, `a{x}`, `a{1,2}b`, `a{3,2}`, `a{65536}`, `a{1001}`, `{`, `a|*`,
		`|a`, `(`, `)`, `()`, `(?:)`, `(?`, `(?<a`, `(?<1a>b)`, `(?<n8>a)|(?<n8>b)`, `(?z)a`, `\`,
		"\xc0\xae", "^/.$", "^/..$", `^/\W$`, `^/\xe9$`, "(?i)\xe9", "(?i)k", "(?i)[k]", "(?i)[[:upper:]]+",
		"(?i)[^a]", `\w+$`, `\s`, `\d+`, `[\h]`, `[\V]`, `^(/.*)$`, `(.*)$`, `(?=.*b)(?=.*a)`, `^(?!.*\.\.).*$`,
		`(?i)\p{Lu}`, `(?i)[\p{Lu}]`, `(a(?=b))\w`, `(?=(a))`, `(?!(a))`, `(?<=(a))b`, `(?<=^|/)a`, `x*`,
		`(?:(?:(a)|b)(?:c|(d)))+`, `(\w+)@(\w+)\.(?:com|org)`, `^(.+?)/?$`, `^(.*?)(?:/(\d+))?$`, `(?<!\.min)\.js$`,
		`[a-z]+(?<!b)$`, `(a|ab)(c|bcd)(d*)`, `(?<=\Ka)`, `(?<=ab|a)b`, `(?<=\b)a`, `(?<=(?=a))a`, `(ab)*+a`,
		`(?:ab)?+ab`, `((?>a*))a`, `$^`, `a$b`, `(?m)$`, `^(a+)\1$`, `(?i)\Qab\E`, `[\N]`, `[\R]`, `(*UTF8)é`,
		`(*UTF).`,
		`(?<n9>a)(?i)\k<n9>`, `\g{+1}(a)`, `(?-1)`, `a{0}b`, `(a){0}b`, `(a){0,1}`, `(?:a|b){2,}c`,
		`[[:alpha:][:digit:]-]`, `[--a]`, `[a-]`, `[-a]`, `[+--]`, `[\x00-\x1f]`, `[^\s/]+`, `.{2,}?b`, `\b\w`, `a\B.`,
	}
}

func subjects() []string {
	return []string{
		"/", "/a", "/aa", "/aaa", "/aaaab", "/ab", "/abc", "/abcd", "/ba", "/bbc", "/abde", "/a.b", "/a.php", "/A.PHP",
		"/x.php\n", "/a\n", "/a\nb", "/a\r\nb", "/12/ab", "/aaaaaa", "/k\xe2\x84\xaa", "/K", "/S\xc5\xbf",
		"/\xe9", "/\xc9", "/é", "/\xc0\xae", "/\xff", "/\x85", "/\xa0", "/ \t", "/é/ü", "/a b", "/cd", "/a-z", "/]",
		"/[", "/:", "/-", "/_", "/{", "/a{2", "/a{,3}", "/d/ef@gh.com", "/x.min.js", "/x.js", "/aacd", "/abcacbd",
		"/\x01", "/\x1b", "/aA", "/Aa", "/a\nbc\n", "/a.", "/a..", "/yy", "/ax", "/by",
	}
}

// shown returns the result of Find as the nginx configuration writes it.
func shown(s string, bounds []int) string {
	if bounds == nil {
		return "no"
	}
	out := "y"
	for n := 1; n <= 3; n++ {
		out += "["
		if 2*n+1 < len(bounds) && bounds[2*n] >= 0 {
			out += s[bounds[2*n]:bounds[2*n+1]]
		}
		out += "]"
	}
	return out
}

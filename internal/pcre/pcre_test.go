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
	testkit.Long(t, "it takes seconds")
	t.Parallel()
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
		if _, err = re.Match("/a", &b); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v without a budget", e, err)
		}
	}
}

// Nested repetitions end in polynomial time, unlike with PCRE, unless references or sub-programs
// depend on them.
func TestNestedRepetitionsEnd(t *testing.T) {
	t.Parallel()
	for _, e := range []string{`^(a+)+$`, `^(\w+\s?)*$`, `^(?!x)(a|aa)+$`, `(a*)*b`,
		`^(?:a|aa|aaa|ab)*$`, `(?:(?:a|b)*)*c`} {
		re, err := Compile(e, false)
		testkit.Must(t, err)
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
		"UTF-8": {"ä" + strings.Join(names, "|ö")}, "code points": {"(*UTF8)ä" + strings.Join(names, "|ö")},
		"many": each("%s"), "many words": each(`\b(%s)\b`), "many with anything": each("AppleWebKit.*%s"),
		"many anchored": each("^%s"),
	} {
		var used []int
		for range 2 {
			var b Budget
			for _, source := range sources {
				re, err := Compile(source, true)
				testkit.Must(t, err)
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

// Programs that are too large are rejected.
func TestTooLargeProgramIsRejected(t *testing.T) {
	for _, e := range []string{`((a{1,100}){1,100}){1,100}\1`, `(?:(?:ab){1000}){1000}`, `(ab){65535}`,
		strings.Repeat("(", 300) + strings.Repeat(")", 300), strings.Repeat("()", 1001)} {
		if _, err := Compile(e, false); err == nil {
			t.Errorf("%.40s: no error", e)
		}
	}
}

// Repetitions of empty programs cost nothing to compile.
func TestRepetitionOfEmptyProgramIsCheap(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"(?:)", "(?:ab){0}", "(?:(?:))", "(?:ab){0}(?:cd){0}"} {
		for range 20 {
			source = "(?:" + source + "){65535}"
		}
		re, err := Compile(source+"x", false)
		if err != nil {
			t.Error(err)
			continue
		}
		if ok, err := re.Match("x", new(Budget)); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
}

// Alternatives within alternatives do not have tries without limit.
func TestTriesAreLimited(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("%d-name", i))
	}
	source := strings.Join(names, "|")
	for range 200 {
		source = "(?:" + source + "|x|y)"
	}
	re, err := Compile(source, false)
	testkit.Must(t, err)
	nodes := 0
	for _, i := range re.prog {
		if i.trie != nil {
			nodes += len(i.trie.nodes)
		}
	}
	if nodes > 2*maxTrieNodes {
		t.Errorf("%d nodes", nodes)
	}
	if ok, err := re.Match(strings.Repeat("x", 100)+"1999-name", new(Budget)); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// Subjects and groups are bytes, and only ASCII letters have two cases.
func TestSubjectsAreBytes(t *testing.T) {
	for _, test := range []struct {
		expression, subject string
		fold                bool
		want                string
	}{
		{"^/(.)$", "/\xe9", false, "y[\xe9][][]"},
		{"^/(.)(.)$", "/é", false, "y[\xc3][\xa9][]"},
		{"\xc0\xae", "/\xc0\xae", false, "y[][][]"},
		{`(\xc0)(\xae)`, "/\xc0\xae", false, "y[\xc0][\xae][]"},
		{`([^a-z]+)x(.*)`, "/éxü/", false, "y[/é][ü/][]"},
		{"k", "\u212a", true, "no"},
		{"\xe9", "\xc9", true, "no"},
		{"É", "é", true, "no"},
		{"(?=(.))é", "é", false, "y[\xc3][][]"},
		{"(*UTF8)^(.)$", "é", false, "y[é][][]"},
	} {
		re, err := Compile(test.expression, test.fold)
		testkit.Must(t, err)
		bounds, err := re.Find(test.subject, new(Budget))
		if got := shown(test.subject, bounds); got != test.want || err != nil {
			t.Errorf("%q, %q: %q %v, want %q", test.expression, test.subject, got, err, test.want)
		}
	}
	re, err := Compile("(*UTF8).", false)
	testkit.Must(t, err)
	if _, err := re.Match("\xff", new(Budget)); !errors.Is(err, ErrNotUTF8) {
		t.Errorf("subject that is not UTF-8: %v", err)
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
	slow := &Regexp{names: re.names, utf8: re.utf8, prog: slices.Clone(re.prog), marks: re.marks}
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

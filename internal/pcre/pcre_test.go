package pcre

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A match that needs too many steps fails, and leaves an empty budget, for each kind of step.
func TestMatchFailsWhenBudgetIsUsedUp(t *testing.T) {
	path := "/" + strings.Repeat("a", 3000)
	for _, e := range []string{`^/(?=(a+)+b)`, `^(?:a?)*+b|(?=(?:a|aa)+$)(?:/a)+b|(a|aa)+?\1b`, `(?=.*x)(?=.*y)`,
		`^/(a+)+\1b`, `^/(?>(a|aa)*b|)(a|aa)*\1b`, `(.*)(.*)(.*)(.*)\4x`, `((a*)*)*\1b`, `(?!.*.*.*.*b)b`} {
		re, err := Compile(e, false)
		if err != nil {
			t.Fatal(err)
		}
		budget := 1 << 19
		_, err = re.Find(path, &budget)
		if !errors.Is(err, ErrBudget) && budget < 1<<18 || errors.Is(err, ErrBudget) != (budget <= 0) &&
			len(path) < maxStack/4 {
			t.Errorf("%s: %v with %d steps left", e, err, budget)
		}
		if budget <= 0 {
			if _, err = re.Match("/a", &budget); !errors.Is(err, ErrBudget) {
				t.Errorf("%s: %v without a budget", e, err)
			}
		}
	}
}

// Package regexp's matches are charged, too.
func TestLinearMatchIsCharged(t *testing.T) {
	re, err := Compile(`((a{1,100}){1,10}b?)c`, false)
	if err != nil {
		t.Fatal(err)
	}
	budget, n := 1<<16, 0
	for ; err == nil && n < 1<<20; n++ {
		_, err = re.Match(strings.Repeat("a", 1000), &budget)
	}
	if !errors.Is(err, ErrBudget) {
		t.Errorf("%v after %d", err, n)
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
		if err != nil {
			t.Fatal(err)
		}
		budget := 1000
		bounds, err := re.Find(test.subject, &budget)
		if got := shown(test.subject, bounds); got != test.want || err != nil {
			t.Errorf("%q, %q: %q %v, want %q", test.expression, test.subject, got, err, test.want)
		}
	}
	re, err := Compile("(*UTF8).", false)
	if err != nil {
		t.Fatal(err)
	}
	budget := 1000
	if _, err := re.Match("\xff", &budget); err == nil {
		t.Error("a subject that is not UTF-8 matches")
	}
}

// FuzzSame checks that both matchers find the same, and that neither panics.
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
		if err != nil || re.utf8 {
			return
		}
		budget := 1 << 18
		bounds, err := re.search(subject, &budget)
		for i := 0; i+1 < len(bounds); i += 2 {
			if (bounds[i] < 0) != (bounds[i+1] < 0) || bounds[i+1] > len(subject) {
				t.Fatalf("%q, %q: %v", expression, subject, bounds)
			}
		}
		if err != nil || re.linear == nil {
			return
		}
		budget = 1 << 30
		linear, err := re.Find(subject, &budget)
		if a, b := fmt.Sprint(bounds), fmt.Sprint(linear); (a != b && len(bounds) != 0 ||
			(bounds == nil) != (linear == nil)) &&
			(!re.lineEnd || !strings.HasSuffix(subject, "\n")) {
			t.Fatalf("%q, %q: %v, package regexp has %v %v", expression, subject, bounds, linear, err)
		}
	})
}

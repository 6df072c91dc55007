//go:build !race

package laws

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tests that are skipped with the race detector, or not compiled, are in the lists of the Makefile,
// by which "make test" runs them without it.
func TestRacelessTestsRun(t *testing.T) {
	t.Chdir(root)
	rooms := strings.Fields(makeVariable(t, "RACELESS_PACKAGES"))
	names, laws := regexp.MustCompile(makeVariable(t, "RACELESS")), makeVariable(t, "LAWS")
	_, all := files(t)
	found := 0
	for file, f := range all {
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || !isTest(file) || !strings.HasPrefix(d.Name.Name, "Test") || d.Name.Name == "TestMain" ||
				!isRaceless(f) && !skipsRace(d) {
				continue
			}
			found++
			room := "./" + path.Dir(file)
			if room != laws && !(names.MatchString(d.Name.Name) && slices.Contains(rooms, room)) {
				t.Errorf("%s: %s does not run: it is not in the lists of the Makefile", file, d.Name.Name)
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d tests", found)
	}
}

// makeVariable returns the value of a variable of the Makefile.
func makeVariable(t *testing.T, name string) (value string) {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if rest, ok := strings.CutPrefix(line, name+" := "); ok {
			value = strings.ReplaceAll(strings.TrimSuffix(rest, "\n"), "$("+name+")", value)
		}
	}
	if value == "" {
		t.Fatalf("the Makefile has no %s", name)
	}
	return value
}

// isRaceless reports whether a file is not compiled with the race detector.
func isRaceless(f *ast.File) bool {
	for _, group := range f.Comments {
		if group.Pos() < f.Package && strings.HasPrefix(group.List[0].Text, "//go:build !race") {
			return true
		}
	}
	return false
}

// skipsRace reports whether a test begins with a condition about the race detector that skips it.
func skipsRace(d *ast.FuncDecl) bool {
	if len(d.Body.List) == 0 {
		return false
	}
	found, skips := false, false
	for _, statement := range d.Body.List[:min(2, len(d.Body.List))] {
		check, ok := statement.(*ast.IfStmt)
		if !ok {
			continue
		}
		ast.Inspect(check, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				found = found || s.Sel.Name == "Race"
				skips = skips || s.Sel.Name == "Skip"
			}
			return true
		})
	}
	return found && skips
}

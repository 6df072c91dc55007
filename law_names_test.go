package tare_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// Tests that comments name exist: a comment that says where something is tested is relied on.
func TestNamedTestsExist(t *testing.T) {
	_, all := files(t)
	name := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)
	exists := make(map[string]bool)
	for path, f := range all {
		if !isTest(path) {
			continue
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				exists[d.Name.Name] = true
			}
		}
	}
	for path, f := range all {
		for _, group := range f.Comments {
			for _, test := range name.FindAllString(group.Text(), -1) {
				if !exists[test] && !strings.HasPrefix(path, "contenders/") {
					t.Errorf("%s: a comment names %s, which does not exist", path, test)
				}
			}
		}
	}
}

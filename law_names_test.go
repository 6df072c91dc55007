package tare_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)

// declaredTests returns the names of all tests, fuzz targets and benchmarks.
func declaredTests(all map[string]*ast.File) map[string]bool {
	declared := make(map[string]bool)
	for path, f := range all {
		if !isTest(path) {
			continue
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				declared[d.Name.Name] = true
			}
		}
	}
	return declared
}

// Tests that comments name exist: readers rely on a comment that says where something is tested.
func TestNamedTestsExist(t *testing.T) {
	_, all := files(t)
	declared := declaredTests(all)
	for path, f := range all {
		for _, group := range f.Comments {
			for _, test := range testName.FindAllString(group.Text(), -1) {
				if !declared[test] && !strings.HasPrefix(path, "contenders/") {
					t.Errorf("%s: a comment names %s, which does not exist", path, test)
				}
			}
		}
	}
}

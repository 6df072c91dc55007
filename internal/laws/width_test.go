//go:build !race

package laws

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxCommentColumns = 100
	maxCodeColumns    = 120
	tabColumns        = 4
	// longLiteral is the length of a string literal from which on its line may be wider: splitting
	// a text makes it hard to find.
	longLiteral = 60
)

// Lines fit beside another window. Lines with a long string literal may be wider.
func TestLinesAreNarrow(t *testing.T) {
	set, all := files(t)
	for path, f := range all {
		exempt := linesWithLongLiterals(set, f)
		text, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimRight(line, "\n")
			columns, limit := utf8.RuneCountInString(line)+(tabColumns-1)*strings.Count(line, "\t"), maxCodeColumns
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				columns, limit = utf8.RuneCountInString(line), maxCommentColumns
			}
			if columns > limit && !exempt[n] && !strings.Contains(line, "://") {
				t.Errorf("%s:%d: %d columns, want at most %d", path, n, columns, limit)
			}
		}
	}
}

// linesWithLongLiterals returns the lines of a file's long and multi-line string literals.
func linesWithLongLiterals(set *token.FileSet, f *ast.File) map[int]bool {
	lines := make(map[int]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		first, last := set.Position(lit.Pos()).Line, set.Position(lit.End()).Line
		if first < last || len(lit.Value) >= longLiteral {
			for line := first; line <= last; line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

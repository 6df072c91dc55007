package contender

import (
	"os"
	"path/filepath"
	"strings"
)

// sourceLines counts the lines of files in a folder, without empty lines and comments.
func sourceLines(dir string, names []string) (int, error) {
	total := 0
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		total += codeLines(string(text), filepath.Ext(name))
	}
	return total, nil
}

// codeLines counts the lines of a text that are neither empty nor a comment. It supports the
// comments of C, which many languages have, comments that begin with #, and docstrings of Python.
func codeLines(text, ext string) (n int) {
	line, open, end := "#", "", ""
	switch ext {
	case ".c", ".h", ".go", ".rs", ".java", ".js", ".mjs", ".ts", ".cc", ".cpp", ".cs", ".kt", ".swift", ".zig":
		line, open, end = "//", "/*", "*/"
	case ".py":
		open, end = `"""`, `"""`
	}
	inside := false
	for at := range strings.Lines(text) {
		at = strings.TrimSpace(at)
		opens := !inside && open != "" && strings.HasPrefix(at, open)
		switch {
		case opens:
			inside = !strings.HasSuffix(at[len(open):], end)
		case inside:
			inside = !strings.HasSuffix(at, end)
		case at != "" && !strings.HasPrefix(at, line):
			n++
		}
	}
	return n
}

//go:build linux

package corpus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// change changes the site's files as a request requires.
func (r *request) change(t *testing.T, dir string) {
	t.Helper()
	for _, line := range r.changes {
		verb, rest, _ := strings.Cut(line, " ")
		name, arg, _ := strings.Cut(rest, " ")
		path := filepath.Join(dir, name)
		var err error
		switch verb {
		case "@link":
			if strings.HasPrefix(arg, "/") {
				arg = dir + arg
			}
			if err = os.Symlink(arg, path+".new"); err == nil {
				err = os.Rename(path+".new", path)
			}
		case "@write":
			if err = os.WriteFile(path, []byte(arg), 0o644); err == nil {
				err = os.Chtimes(path, fileTime(), fileTime())
			}
		case "@remove":
			err = os.RemoveAll(path)
		}
		testkit.Must(t, err)
	}
}

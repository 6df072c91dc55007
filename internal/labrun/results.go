package labrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ResultsDir makes a results folder and returns its path: out, or if that is empty a new folder in
// root/results whose name is the time. A number is added if that folder exists.
func ResultsDir(root, out string, started time.Time) (string, error) {
	if out != "" {
		return out, os.MkdirAll(out, 0o755)
	}
	const attempts = 1000
	base := filepath.Join(root, "results", started.Format("2006-01-02T15-04-05"))
	dir := base
	for n := 2; ; n++ {
		if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
			return "", err
		}
		err := os.Mkdir(dir, 0o755)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, os.ErrExist):
			dir = fmt.Sprintf("%s-%d", base, n)
		case !errors.Is(err, os.ErrNotExist) || n > attempts: // another run may remove an empty folder
			return "", err
		}
	}
}

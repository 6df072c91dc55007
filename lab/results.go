package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
)

// openResults makes the results folder, writes the contenders' configurations and creates the
// journal. If that fails, the run continues and reports on the terminal only.
func (w *runner) openResults() {
	dir, err := ResultsDir(w.Root, w.Out, w.run.Started)
	if err == nil {
		w.journal, err = trial.NewJournal(filepath.Join(dir, report.JournalFile))
	}
	if err != nil {
		w.warn("results cannot be written to disk: %v", err)
		return
	}
	w.dir = dir
	for _, name := range slices.Sorted(maps.Keys(w.written)) {
		if err := keepFiles(filepath.Join(dir, report.ConfigsDir, name), w.written[name]); err != nil {
			w.warn("configurations cannot be written to disk: %v", err)
			return
		}
	}
}

// ResultsDir makes a results folder and returns its path: out, or if that is empty a new folder in
// root/results whose name is the time. A number is added if that folder exists.
func ResultsDir(root, out string, started time.Time) (string, error) {
	if out != "" {
		return out, os.MkdirAll(out, 0o755)
	}
	base := filepath.Join(root, "results", started.Format("2006-01-02T15-04-05"))
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return "", err
	}
	dir, err := base, os.Mkdir(base, 0o755)
	for n := 2; errors.Is(err, os.ErrExist); n++ {
		dir = fmt.Sprintf("%s-%d", base, n)
		err = os.Mkdir(dir, 0o755)
	}
	return dir, err
}

// keepFiles writes files to a folder. Without files it makes no folder.
func keepFiles(dir string, files map[string][]byte) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

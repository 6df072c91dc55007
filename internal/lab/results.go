package lab

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/labrun"
)

// openResults makes the results folder, writes the contenders' configurations and creates the
// journal. If that fails, the run continues and reports on the terminal only.
func (w *runner) openResults() {
	dir, err := labrun.ResultsDir(cmp.Or(w.Results, w.Root), w.Out, w.run.Started)
	if err == nil {
		w.journal, err = sample.NewJournal(filepath.Join(dir, sample.JournalFile))
	}
	if err != nil {
		w.warn("results cannot be written to disk: %v", err)
		return
	}
	w.dir = dir
	for _, name := range slices.Sorted(maps.Keys(w.written)) {
		if err := keepFiles(filepath.Join(dir, sample.ConfigsDir, name), w.written[name]); err != nil {
			w.warn("configurations cannot be written to disk: %v", err)
			return
		}
	}
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

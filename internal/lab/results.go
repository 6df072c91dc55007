package lab

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
)

// keepConfigs writes the contenders' configurations to the results folder.
func (w *runner) keepConfigs() {
	for _, name := range slices.Sorted(maps.Keys(w.written)) {
		dir := filepath.Join(w.recorder.folder.Path, sample.ConfigsDir, name)
		if err := keepFiles(dir, w.written[name]); err != nil {
			w.recorder.Warn("configurations cannot be written to disk: %v", err)
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

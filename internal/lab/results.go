package lab

import (
	"os"
	"path/filepath"

	"github.com/tarehq/tare/internal/lab/sample"
)

// keepConfigs writes the contenders' configurations to the results folder.
func (w *runner) keepConfigs() {
	for contender, files := range w.written {
		for name, text := range files {
			file := filepath.Join(w.recorder.folder.Path, sample.ConfigsDir, contender, name)
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if err == nil {
				err = os.WriteFile(file, text, 0o644)
			}
			if err != nil {
				w.recorder.Warn("configurations cannot be written to disk: %v", err)
				return
			}
		}
	}
}

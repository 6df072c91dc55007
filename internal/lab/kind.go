package lab

import (
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// KindOf returns the kind of the experiment in a folder. It returns Comparison if the file cannot
// be parsed, so that ReadExperiment reports why.
func KindOf(dir string) Kind {
	var head struct {
		Kind Kind `yaml:"kind"`
	}
	text, err := os.ReadFile(filepath.Join(dir, ExperimentFile))
	if err != nil || yaml.Unmarshal(text, &head) != nil {
		return Comparison
	}
	return head.Kind
}

// Package experiments embeds the project's experiments: a folder for each question.
package experiments

import (
	"embed"
	"io/fs"
)

//go:embed */*.yaml */*.conf targets/*/*.yaml targets/*/*.conf
var files embed.FS

// Files returns the folders of all experiments.
func Files() fs.FS { return files }

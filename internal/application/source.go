package application

import (
	"embed"
	"io/fs"
)

//go:embed *.go
var source embed.FS

// Source returns the files of this package, whose lines reports count.
func Source() fs.FS { return source }

package contender

import (
	"embed"
	"os"
	"path/filepath"
)

// etcFiles are the files that configurations include, for fronts on machines without nginx.
//
//go:embed etc
var etcFiles embed.FS

// etc returns the folder of the files that the front's configuration includes: nginx's, or one that
// it makes in the scratch folder.
func (r *Running) etc() (string, error) {
	if r.Nginx != nil {
		return r.Nginx.Etc, nil
	}
	return filepath.Join(r.dir, "etc"), os.CopyFS(r.dir, etcFiles)
}

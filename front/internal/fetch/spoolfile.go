package fetch

import (
	"fmt"
	"os"
	"sync/atomic"
)

// spoolFile is a spool file. Where the system allows that, it never has a name, or is removed while
// it is open, so that nobody else can open it.
type spoolFile struct {
	*os.File
	named bool         // it could not be removed yet, or its name is in use
	kept  bool         // it stays
	users atomic.Int32 // each calls discard
}

// spoolPrefix begins the names of spool files.
const spoolPrefix = "tare-front-"

func newSpoolFile() (*spoolFile, error) {
	t := new(spoolFile)
	t.users.Store(1)
	var err error
	if t.File, err = openUnnamed(os.TempDir()); err == nil {
		return t, nil
	}
	if t.File, err = os.CreateTemp("", spoolPrefix); err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	t.named = os.Remove(t.Name()) != nil
	return t, nil
}

// newBodyFile makes a file that has a name until its end, or is kept.
func newBodyFile(dir string, kept bool) (*spoolFile, error) {
	f, err := os.CreateTemp(dir, "tare-body-")
	if err != nil {
		return nil, fmt.Errorf("creating a file for a body: %w", err)
	}
	t := &spoolFile{File: f, named: true, kept: kept}
	t.users.Store(1)
	return t, nil
}

// discard ends a use of the file. The last one closes and removes it.
func (t *spoolFile) discard() {
	if t.users.Add(-1) > 0 {
		return
	}
	t.Close()
	if t.named && !t.kept {
		_ = os.Remove(t.Name()) // there is nowhere to report an error
	}
}

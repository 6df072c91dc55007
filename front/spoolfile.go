package front

import (
	"fmt"
	"os"
)

// spoolFile is a spool file. It is removed while it is open, where the system allows that, so that
// nobody else can open it.
type spoolFile struct {
	*os.File
	named bool // it could not be removed yet
}

func newSpoolFile() (*spoolFile, error) {
	f, err := os.CreateTemp("", "tare-front-")
	if err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	return &spoolFile{f, os.Remove(f.Name()) != nil}, nil
}

// discard closes and removes the file.
func (t *spoolFile) discard() {
	t.Close()
	if t.named {
		_ = os.Remove(t.Name()) // there is nowhere to report an error
	}
}

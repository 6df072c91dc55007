package front

import (
	"fmt"
	"os"
)

// temporary is a spool file. It is removed while it is open, where the system allows that, so that
// nobody else can open it.
type temporary struct {
	*os.File
	named bool // it could not be removed yet
}

func newTemporary() (*temporary, error) {
	f, err := os.CreateTemp("", "tare-front-")
	if err != nil {
		return nil, fmt.Errorf("a temporary file: %w", err)
	}
	return &temporary{f, os.Remove(f.Name()) != nil}, nil
}

// discard closes and removes the file.
func (t *temporary) discard() {
	t.Close()
	if t.named {
		_ = os.Remove(t.Name()) // there is nowhere to report an error
	}
}

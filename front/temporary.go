package front

import (
	"fmt"
	"os"
)

// temporary is a file for what memory is too small for. Nobody else can open it, where a file that is open can be removed.
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

// discard closes the file, which is no more then.
func (t *temporary) discard() {
	t.Close()
	if t.named {
		_ = os.Remove(t.Name()) // nobody could be told
	}
}

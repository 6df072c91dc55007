//go:build !linux

package fetch

import (
	"errors"
	"os"
)

// openUnnamed returns an error: files have names on this system.
func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

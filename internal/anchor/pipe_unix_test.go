//go:build unix

package anchor_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/testkit"
)

func TestReadingPipeDoesNotWait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	f, err := anchor.New(name)
	testkit.Must(t, err)
	defer f.Close()
	wantText(t, f, "")
}

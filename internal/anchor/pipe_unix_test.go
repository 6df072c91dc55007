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
	f := testkit.Value(anchor.New(name))(t)
	defer f.Close()
	wantText(t, f, "")
}

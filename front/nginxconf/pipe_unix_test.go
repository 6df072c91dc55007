//go:build unix

package nginxconf

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A named pipe among included files is an error: reading it would block the server until a
// program writes.
func TestIncludedPipeIsAnError(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	testkit.WriteFile(t, conf, "events {} http { include sites/*; server { listen 80; } }")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "sites"), 0o700))
	if err := syscall.Mkfifo(filepath.Join(dir, "sites", "a"), 0o600); err != nil {
		t.Skip(err)
	}
	testkit.Fails(Parse(conf, Options{}))(t, "sites/a: named pipe")
}

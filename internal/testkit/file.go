package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a file, and makes its folder.
func WriteFile(t testing.TB, name, text string) {
	t.Helper()
	Must(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}

// OpenFiles returns the number of files that this process has open; 0 where the system has no list.
func OpenFiles() int {
	open, _ := os.ReadDir("/proc/self/fd")
	return len(open)
}

// ShortDir returns a directory whose name is short enough for a socket in it, until the end of the
// test.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir := Value(os.MkdirTemp("", "tare"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

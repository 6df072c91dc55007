package programs

import (
	"path/filepath"
	"testing"
)

// Umoci returns umoci, which unpacks OCI images, and the environment it needs.
func Umoci(t testing.TB) (path string, env []string) {
	t.Helper()
	bin, env := unpacked(t, "umoci", "umoci")
	return filepath.Join(bin, "umoci"), env
}

// QEMU returns an emulator of Linux programs for arm64, and the environment it needs.
func QEMU(t testing.TB) (path string, env []string) {
	t.Helper()
	const program = "qemu-aarch64-static"
	bin, env := unpacked(t, "qemu-user-static", program)
	return filepath.Join(bin, program), env
}

//go:build !linux

package testkit

import "testing"

// SmallDisk skips the test: only Linux has disks in memory.
func SmallDisk(t testing.TB, _ string) string {
	t.Helper()
	t.Skip("small disks require Linux")
	return ""
}

//go:build !linux

package front_test

import "testing"

// serveNginx serves a server block by a real nginx, on systems with one.
func serveNginx(t testing.TB, _, _ string) (*testClient, string) {
	t.Helper()
	t.Skip("nginx runs on Linux only")
	return nil, ""
}

//go:build !linux

package front_test

import "testing"

// serveNginx has a real nginx serve what a server block says, on systems that there is one for.
func serveNginx(t testing.TB, _, _ string) (*asker, string) {
	t.Helper()
	t.Skip("nginx is asked on Linux only")
	return nil, ""
}

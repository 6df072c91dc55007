package programs

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// PHP returns a working php-fpm and the environment it needs. The name of the program has PHP's
// version.
func PHP(t testing.TB) (path string, env []string) {
	t.Helper()
	for _, pattern := range []string{"/usr/sbin/php-fpm*", "/usr/local/sbin/php-fpm*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
	}
	return fromPackage(t, "php-fpm", "usr/sbin/php-fpm*")
}

// PHPServer returns a php with a built-in web server (php -S), and the environment it needs.
func PHPServer(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("php"); err == nil {
		return path, nil
	}
	return fromPackage(t, "php-cli", "usr/bin/php*.*")
}

package programs

import (
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

// Flup returns a Python interpreter that can import flup, and the environment it needs.
func Flup(t testing.TB) (path string, env []string) {
	t.Helper()
	return pythonWith(t, "flup==1.0.3")
}

package programs

import (
	"os/exec"
	"testing"
)

// Tinyproxy returns a working tinyproxy and the environment it needs.
func Tinyproxy(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "tinyproxy", "tinyproxy-bin")
}

// PHPServer returns a php with a built-in web server (php -S), and the environment it needs.
func PHPServer(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("php"); err == nil {
		return path, nil
	}
	return fromPackage(t, "php-cli", "usr/bin/php*.*")
}

// PCRE2Test returns the path of pcre2test and the environment it needs.
func PCRE2Test(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "pcre2test", "pcre2-utils")
}

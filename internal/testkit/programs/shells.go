package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BashCompletion returns the file of functions that completions for bash use.
func BashCompletion(t testing.TB) string {
	t.Helper()
	const file = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(file); err == nil {
		return file
	}
	path, _ := fromPackage(t, "bash-completion", file)
	return path
}

// Zsh returns a working zsh, the folder of its modules, and the environment it needs.
func Zsh(t testing.TB) (path, modules string, env []string) {
	t.Helper()
	root := ""
	path, err := exec.LookPath("zsh")
	if err != nil {
		var bin string
		bin, env = unpacked(t, "zsh", "../../bin/zsh")
		root = filepath.Join(bin, "../..")
		path = filepath.Join(root, "bin/zsh")
	}
	found, _ := filepath.Glob(filepath.Join(root, "/usr/lib/*/zsh/*/zsh/parameter.so"))
	if len(found) == 0 {
		skipMissing(t, "zsh has no modules")
	}
	return path, filepath.Dir(filepath.Dir(found[0])), env
}

// Fish returns a working fish and the environment it needs.
func Fish(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "fish", "fish")
}

// Logrotate returns a working logrotate and the environment it needs.
func Logrotate(t testing.TB) (path string, env []string) {
	t.Helper()
	return installed(t, "logrotate", "logrotate")
}

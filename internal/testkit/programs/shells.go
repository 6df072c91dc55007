package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
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
	path, env = Installed(t, "zsh", "zsh")
	root := strings.TrimSuffix(strings.TrimSuffix(path, "/bin/zsh"), "/usr")
	found, _ := filepath.Glob(filepath.Join(root, "/usr/lib/*/zsh/*/zsh/parameter.so"))
	if len(found) == 0 {
		testkit.Missing(t, "zsh has no modules")
	}
	return path, filepath.Dir(filepath.Dir(found[0])), env
}

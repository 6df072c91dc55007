package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// PHP returns a working php-fpm and the environment it needs.
func PHP(t testing.TB) (path string, env []string) {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	path, env, err := findPHP(t)
	if err != nil {
		skipMissing(t, "php-fpm: "+err.Error())
	}
	return path, env
}

// findPHP returns the machine's php-fpm, or unpacks Debian's packages, whose version depends on the
// release.
func findPHP(t testing.TB) (path string, env []string, err error) {
	for _, pattern := range []string{"/usr/sbin/php-fpm*", "/usr/local/sbin/php-fpm*"} {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			if checkRuns(path, nil) == nil {
				return path, nil, nil
			}
		}
	}
	tools, ctx := Tools(t), context.Background()
	name := dependency("php-fpm", `^php[0-9.]+-fpm$`, "php8.2-fpm")
	tree, err := tools.Package(ctx, name)
	if err != nil {
		return "", nil, err
	}
	found, _ := filepath.Glob(filepath.Join(tree.Root, "usr/sbin/php-fpm*"))
	if len(found) == 0 {
		return "", nil, errors.New("the Debian package has no php-fpm")
	}
	env = tree.Env()
	if err = checkRuns(found[0], env); err == nil {
		return found[0], env, nil
	}
	// One of its libraries needs another one, which Package does not resolve.
	more, moreErr := tools.Package(ctx, dependency("libxml2", "^libicu", "libicu72"))
	if moreErr != nil {
		return "", nil, errors.Join(err, moreErr)
	}
	if env = joinLibraryPaths(tree.Env(), more.Env()); checkRuns(found[0], env) != nil {
		return "", nil, err
	}
	return found[0], env, nil
}

// joinLibraryPaths merges the LD_LIBRARY_PATH of two environments.
func joinLibraryPaths(a, b []string) []string {
	const key = "LD_LIBRARY_PATH="
	var dirs []string
	for _, e := range slices.Concat(a, b) {
		dirs = append(dirs, strings.TrimPrefix(e, key))
	}
	return []string{key + strings.Join(dirs, ":")}
}

// checkRuns returns an error if a program does not print its version.
func checkRuns(path string, env []string) error { return checkOption(path, env, "-v") }

// checkOption is checkRuns for a program with another option.
func checkOption(path string, env []string, option string) error {
	c := exec.Command(path, option)
	c.Env = slices.Concat(os.Environ(), env)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", path, option, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// dependency returns the package that another one depends on and whose name matches pattern. It
// returns fallback if apt has no package lists, as in a new container.
func dependency(name, pattern, fallback string) string {
	out, _ := exec.Command("apt-cache", "depends", name).Output()
	match := regexp.MustCompile(pattern)
	for line := range strings.Lines(string(out)) {
		if _, dep, ok := strings.Cut(strings.TrimSpace(line), "Depends: "); ok && match.MatchString(dep) {
			return dep
		}
	}
	return fallback
}

// Flup returns a Python interpreter that can import flup, and the environment it needs.
func Flup(t testing.TB) (path string, env []string) {
	t.Helper()
	return pythonWith(t, "flup==1.0.3")
}

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

func checkRuns(path string, env []string) error {
	c := exec.Command(path, "-v")
	c.Env = slices.Concat(os.Environ(), env)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s -v: %w: %s", path, err, strings.TrimSpace(string(out)))
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

// flup is the requirement that pip installs.
const flup = "flup==1.0.3"

// Flup returns a Python interpreter that can import flup, and the environment it needs.
func Flup(t testing.TB) (path string, env []string) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		skipMissing(t, "flup: python3 is not in PATH (install it with \"apt-get install python3-pip\")")
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	dir := filepath.Join(Root(t), ".cache", "python", flup)
	if _, err := os.Stat(dir); err != nil {
		if err := installFlup(path, dir); err != nil {
			skipMissing(t, err.Error())
		}
	}
	return path, []string{"PYTHONPATH=" + dir}
}

// installFlup installs flup into a folder atomically.
func installFlup(python, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "flup")
	out, err := exec.Command(python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", fresh,
		flup).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pip install %s: %w: %s", flup, err, strings.TrimSpace(string(out)))
	}
	if err = os.Rename(fresh, dir); errors.Is(err, os.ErrExist) {
		err = nil // another test binary installed it meanwhile
	}
	return err
}

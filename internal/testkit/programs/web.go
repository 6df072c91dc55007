package programs

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// Tinyproxy returns a working tinyproxy and the environment it needs.
func Tinyproxy(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("tinyproxy"); err == nil {
		return path, nil
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), "tinyproxy-bin")
	path, env = filepath.Join(tree.Root, "usr/bin/tinyproxy"), tree.Env()
	if err == nil {
		err = checkRuns(path, env)
	}
	if err != nil {
		skipMissing(t, "tinyproxy: "+err.Error())
	}
	return path, env
}

// PHPServer returns a php with a built-in web server (php -S), and the environment it needs.
func PHPServer(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("php"); err == nil && checkRuns(path, nil) == nil {
		return path, nil
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tools, ctx := Tools(t), context.Background()
	tree, err := tools.Package(ctx, dependency("php-cli", `^php[0-9.]+-cli$`, "php8.2-cli"))
	var found []string
	if err == nil {
		if found, _ = filepath.Glob(filepath.Join(tree.Root, "usr/bin/php*.*")); len(found) == 0 {
			err = errors.New("the Debian package has no php")
		}
	}
	if err != nil {
		skipMissing(t, "php: "+err.Error())
	}
	env = tree.Env()
	if checkRuns(found[0], env) != nil { // as in findPHP
		more, moreErr := tools.Package(ctx, dependency("libxml2", "^libicu", "libicu72"))
		if moreErr == nil {
			env = joinLibraryPaths(env, more.Env())
		}
		if err := checkRuns(found[0], env); err != nil {
			skipMissing(t, "php: "+err.Error())
		}
	}
	return found[0], env
}

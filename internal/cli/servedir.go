package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mayServe is an error if a folder is one that is hardly meant to be served: the whole system, a home, or one in which a
// private key or the log would be served with the rest.
func (p *servePlan) checkServable(dir *os.File) error {
	if strings.HasPrefix(filepath.Base(resolvePath(p.dir)), ".") && !p.files.Dotfiles {
		return fmt.Errorf("%q begins with a dot: such folders are not served without --dotfiles", filepath.Base(resolvePath(p.dir)))
	}
	if p.allowsAnyDir {
		return nil
	}
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if root, err := os.Stat("/"); err == nil && os.SameFile(info, root) {
		return errors.New("that would serve the whole system, /; name a folder in it, or add --unsafe-dir")
	}
	if home, err := os.UserHomeDir(); err == nil && isWithin(info, home) {
		return fmt.Errorf("that would serve your home, %s; name a folder in it, or add --unsafe-dir", home)
	}
	if p.key != "" && isWithin(info, filepath.Dir(p.key)) {
		return fmt.Errorf("--key: %s would be served, being in %s; put it elsewhere, or add --unsafe-dir", p.key, p.dir)
	}
	if p.accessLog != "" && p.accessLog != stdio && isWithin(info, filepath.Dir(p.accessLog)) {
		return fmt.Errorf("--access-log: %s would be served, being in %s; put it elsewhere, or add --unsafe-dir", p.accessLog, p.dir)
	}
	return nil
}

// isWithin reports whether path is the folder, or in it, symbolic links or not.
func isWithin(folder os.FileInfo, path string) bool {
	path = resolvePath(path)
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, folder) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// resolved is where a path leads, or itself if that cannot be found out.
func resolvePath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkServable returns an error if serving the folder is probably a mistake. That is so for the
// whole system, a home, a hidden folder, and one that holds the private key or the log.
func (p *servePlan) checkServable(dir *os.File) error {
	if strings.HasPrefix(filepath.Base(resolvePath(p.dir)), ".") && !p.files.Dotfiles {
		return fmt.Errorf("%q begins with a dot: such folders require --dotfiles", filepath.Base(resolvePath(p.dir)))
	}
	if p.flags.unsafeDir {
		return nil
	}
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if root, err := os.Stat("/"); err == nil && os.SameFile(info, root) {
		return errors.New("refusing to serve the root folder / (choose a folder in it, or add --unsafe-dir)")
	}
	if home, err := os.UserHomeDir(); err == nil && isWithin(info, home) {
		return fmt.Errorf("refusing to serve your home %q (choose a folder in it, or add --unsafe-dir)", home)
	}
	if p.key != "" && isWithin(info, filepath.Dir(p.key)) {
		return fmt.Errorf("--key: %q is inside the served folder %q (move it, or add --unsafe-dir)", p.key, p.dir)
	}
	if p.accessLog != "" && p.accessLog != stdio && isWithin(info, filepath.Dir(p.accessLog)) {
		return fmt.Errorf("--access-log: %q is inside the served folder %q (move it, or add --unsafe-dir)", p.accessLog,
			p.dir)
	}
	return nil
}

// isWithin reports whether path is the folder or inside it, with symbolic links resolved.
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

// resolvePath resolves symbolic links. If that fails, it returns path.
func resolvePath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

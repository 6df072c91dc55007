//go:build !unix

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenFile opens a file as os.OpenFile does: this system has no root user.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, File, error) {
	_, statErr := os.Stat(path)
	f, err := os.OpenFile(path, flag, perm)
	return f, File{Created: errors.Is(statErr, fs.ErrNotExist)}, err
}

// GiveDir creates a directory unless it exists.
func GiveDir(path string, perm fs.FileMode, _ int) error {
	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Remove removes a file.
func Remove(path string) error { return os.Remove(path) }

// ChmodSocket changes the permissions of a unix socket.
func ChmodSocket(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }

// OpenIn opens a file in a directory.
func OpenIn(dir *os.File, name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir.Name(), name), flag, perm)
}

// CheckWritable does nothing.
func CheckWritable(string) error { return nil }

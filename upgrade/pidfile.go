package upgrade

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// pidFileMode lets every user read the process ID.
const pidFileMode = 0o644

// A pidFile is a complete file under another name. The zero value is no file.
type pidFile struct{ temporary, path string }

// newPIDFile writes the process ID to a new file beside path. It finds out whether path can be
// written, and leaves the file of another process as it is.
func newPIDFile(path string) (_ pidFile, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return pidFile{}, err
	}
	_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	if err = errors.Join(err, f.Chmod(pidFileMode), f.Close()); err != nil {
		return pidFile{}, errors.Join(err, os.Remove(f.Name()))
	}
	return pidFile{f.Name(), path}, nil
}

// publish gives the file its path. Readers never see a partial file.
func (p pidFile) publish() error {
	if p.path == "" {
		return nil
	}
	return os.Rename(p.temporary, p.path)
}

// discard removes the file without a path.
func (p pidFile) discard() error {
	if p.path == "" {
		return nil
	}
	return os.Remove(p.temporary)
}

// removePID removes the file unless another process has written it.
func removePID(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(bytes.TrimSpace(b)) != strconv.Itoa(os.Getpid()) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// Package kernel changes kernel settings to those of a write-up during a run, where the run can
// notice it, and reports which limits a run has reached.
package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Tree is a folder of kernel settings, one file each. The zero value is /proc/sys.
type Tree struct {
	Root string `json:"root,omitempty"`
}

// file returns the path of a setting's file. It rejects names that lead out of the tree.
func (t Tree) file(name string) (string, error) {
	if !regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)+$`).MatchString(name) {
		return "", fmt.Errorf("invalid name of a kernel setting: %q", name)
	}
	return filepath.Join(cmp.Or(t.Root, "/proc/sys"), filepath.Join(strings.Split(name, ".")...)), nil
}

// Read returns the value of a setting such as net.core.somaxconn, with single spaces between its
// numbers. The error wraps fs.ErrNotExist if there is no such setting.
func (t Tree) Read(name string) (string, error) {
	file, err := t.file(name)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return clean(string(b)), nil
}

// clean returns a value in the format of Read.
func clean(value string) string { return strings.Join(strings.Fields(value), " ") }

// write sets the value of an existing setting.
func (t Tree) write(name, value string) error {
	file, err := t.file(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// Writable returns nil if this process may write the setting.
func (t Tree) Writable(name string) error {
	file, err := t.file(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

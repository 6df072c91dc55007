// Package kernel compares the kernel's settings with those of a write-up, and changes
// them for the time of a run.
//
// What is known of each setting is in known.go; what a run can notice of it in
// compare.go; tune.go changes settings, and puts them back.
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

// Tree is a folder of kernel settings, a file each. The zero value is the machine's,
// /proc/sys.
type Tree struct {
	Root string `json:"root,omitempty"`
}

// file returns the file that holds a setting. A name leads nowhere else than into the tree.
func (t Tree) file(name string) (string, error) {
	if !regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)+$`).MatchString(name) {
		return "", fmt.Errorf("%q is no name of a kernel setting", name)
	}
	return filepath.Join(cmp.Or(t.Root, "/proc/sys"), filepath.Join(strings.Split(name, ".")...)), nil
}

// Read returns a setting such as net.core.somaxconn, with single spaces between its
// numbers. The error is fs.ErrNotExist if there is no such setting.
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

// clean writes a value as Read does.
func clean(value string) string { return strings.Join(strings.Fields(value), " ") }

// write sets a setting that exists.
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

// Writable returns nil if the setting may be written by this process.
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

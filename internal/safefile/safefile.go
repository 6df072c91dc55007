// Package safefile opens and makes files by their paths while the process is root, where other users may write.
//
// Somebody who may write in a folder can put a symbolic link there. A program of root's that follows it creates, changes or gives
// away a file of the link's choice. So a link is followed only in a trusted folder: one of root's in which nobody else may write, and which
// nobody else can replace, because the folders above it are root's, too. Elsewhere
// a link is an error, and so is a file with several hard links. Paths are walked name by name, so that nothing that changes
// meanwhile leads elsewhere.
//
// A process that is not root has the rights of its user only. Then the functions do what those of package os do.
package safefile

import (
	"errors"
	"io/fs"
)

var (
	errLink   = errors.New("a symbolic link in a folder in which others may write; remove it, or have root own the folder")
	errLinked = errors.New("a file with several hard links in a folder in which others may write; remove it, or have root own the folder")
	errLoop   = errors.New("too many symbolic links")
)

// A File is what OpenFile did besides opening.
type File struct {
	// Created says that the file is new.
	Created bool
	// Linked says that a symbolic link led to it.
	Linked bool
	// Trusted says that nobody but root may write in its folder, or replace that.
	Trusted bool
}

// OpenError is an error in opening path.
func openError(path string, err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }

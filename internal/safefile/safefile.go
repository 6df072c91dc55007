// Package safefile opens and creates files by path while the process is root and other users may
// write to the directories.
//
// A user who may write to a directory can create a symbolic link in it. If root follows the link,
// it creates, changes or gives away a file of that user's choice. Links are therefore followed only
// in a trusted directory: root owns it, nobody else may write to it, and nobody else can replace
// it, because the same holds for its parents. In other directories a link is an error, and so is a
// file with several hard links. Paths are resolved one name at a time, so that concurrent changes
// cannot redirect them.
//
// If the process is not root, it has only the rights of its user, and the functions do what those
// of package os do.
package safefile

import (
	"errors"
	"io/fs"
)

var (
	errSymlink   = errors.New("symlink in a directory that others may write to (remove it, or chown the directory)")
	errHardLinks = errors.New("file with several hard links in a directory that others may write to (remove it)")
	errLoop      = errors.New("too many symbolic links")
)

// A File describes what OpenFile did.
type File struct {
	// Created reports that the file is new.
	Created bool
	// Linked reports that the path contains a symbolic link.
	Linked bool
	// Trusted reports that only root may write to the file's directory or replace it.
	Trusted bool
}

func openError(path string, err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }

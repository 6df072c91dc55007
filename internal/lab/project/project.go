// Package project provides the experiments and contenders: those of a checkout, or those that this
// program carries, which it unpacks into the user's cache.
//
// The experiments are embedded from their folder. The contenders are a nested module, whose files
// cannot be embedded, so they are in an archive (contenders.txtar). A test compares the archive
// with the folder, and makes it:
//
//	go test ./internal/lab/project -update
package project

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/tarehq/tare/experiments"
	"github.com/tarehq/tare/internal/application"
)

//go:embed contenders.txtar
var contenders []byte

// The folders of a project.
const (
	experimentsDir = "experiments"
	contendersDir  = "contenders"
)

// Find returns the closest of a folder and those above it that has experiments and contenders, as a
// checkout does.
func Find(dir string) (root string, ok bool) {
	for at := dir; ; at = filepath.Dir(at) {
		if isFolder(filepath.Join(at, experimentsDir)) && isFolder(filepath.Join(at, contendersDir)) {
			return at, true
		}
		if at == filepath.Dir(at) {
			return "", false
		}
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// embedded returns all files of the project that this program carries. Their names are relative to
// the project, with slashes.
func embedded() (all []txtar.File, err error) {
	err = fs.WalkDir(experiments.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(experiments.Files(), path)
		all = append(all, txtar.File{Name: experimentsDir + "/" + path, Data: text})
		return err
	})
	sources, listErr := fs.Glob(application.Source(), "*.go")
	err = errors.Join(err, listErr)
	for _, name := range sources {
		text, readErr := fs.ReadFile(application.Source(), name)
		err = errors.Join(err, readErr)
		all = append(all, txtar.File{Name: "internal/application/" + name, Data: text})
	}
	for _, f := range txtar.Parse(contenders).Files {
		all = append(all, txtar.File{Name: contendersDir + "/" + f.Name, Data: f.Data})
	}
	return all, err
}

// Unpack writes the embedded experiments and contenders to a new folder in cache, unless an earlier
// call did. The folder's name depends on the content, so that different versions of this program
// have different folders. Go contenders get the module of this program from source.
func Unpack(cache string, source Source) (root string, err error) {
	all, err := embedded()
	if err != nil {
		return "", err
	}
	for i := range all {
		if all[i].Data, err = source.apply(all[i]); err != nil {
			return "", err
		}
	}
	root = filepath.Join(cache, "project-"+sum(all))
	if isFolder(root) {
		return root, nil
	}
	if err := unpack(cache, root, all); err != nil {
		return "", fmt.Errorf("unpacking the experiments: %w (set XDG_CACHE_HOME to another folder)", err)
	}
	return root, nil
}

// unpack writes files to a temporary folder and renames it, so that root is complete if it exists.
func unpack(cache, root string, all []txtar.File) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	files, err := txtar.FS(&txtar.Archive{Files: all})
	if err == nil {
		err = os.CopyFS(work, files)
	}
	if err == nil {
		err = flush(work)
	}
	if err != nil {
		return err
	}
	err = os.Rename(work, root)
	if errors.Is(err, fs.ErrExist) || isFolder(root) {
		return nil // another process has unpacked it meanwhile
	}
	return err
}

// flush writes the file system of a folder to the disk. A power failure then leaves no empty files.
func flush(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

const modulePath = "github.com/tarehq/tare"

// IsModule reports whether a folder is the root of this program's module.
func IsModule(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n")
}

package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/sample"
)

// Recorder keeps what a run measures: in memory, in the journal and in messages.
type Recorder struct {
	Run  *sample.Run
	Logf func(format string, args ...any) // may be nil

	folder  Folder
	journal *os.File // nil if records cannot be written
}

// Open makes the results folder, the journal and run.json, before anything is built or started. The
// error is a *UsageError.
func (r *Recorder) Open(o *Options) error {
	folder, err := o.NewFolder(r.Run.Started)
	if err != nil {
		return err
	}
	r.journal, err = sample.NewJournal(folder.Path)
	if err != nil {
		folder.Discard()
		return unwritable(err)
	}
	r.folder = folder
	if err := r.Run.Write(folder.Path); err != nil {
		r.Discard()
		return unwritable(err)
	}
	return nil
}

// Save writes run.json again: the run has changed, and it may be killed.
func (r *Recorder) Save() {
	if r.journal == nil {
		return
	}
	if err := r.Run.Write(r.folder.Path); err != nil {
		r.stopWriting(err)
	}
}

func (r *Recorder) stopWriting(err error) {
	r.Warn("results are no longer written to disk: %v", err)
	_ = r.journal.Close()
	r.journal = nil
}

// NewFolder makes the results folder: Out, or a new one in Results/results. A file in it that the
// run or its Reports would replace is an error. The error is a *UsageError.
func (o *Options) NewFolder(started time.Time) (Folder, error) {
	folder, err := newFolder(cmp.Or(o.Results, o.Root), o.Out, started)
	if err != nil {
		return Folder{}, unwritable(err)
	}
	for _, name := range slices.Concat([]string{sample.JournalFile, sample.RunFile, sample.ConfigsDir}, o.Reports) {
		if _, err := os.Lstat(filepath.Join(folder.Path, name)); err == nil {
			return Folder{}, UsageErrorf(OptionOut, "%q has the file %s, which would be replaced; name another folder",
				folder.Path, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Folder{}, unwritable(err)
		}
	}
	return folder, nil
}

// Folder is a folder for the results of a run. The zero value has no folder.
type Folder struct {
	Path string

	made []string // what this process made: the folder itself, and perhaps the one above
}

// newFolder makes a results folder: out, or if that is empty a new folder in root/results whose
// name is the time. A number is added if that folder exists.
func newFolder(root, out string, started time.Time) (Folder, error) {
	if out != "" {
		folder := Folder{Path: out}
		if _, err := os.Stat(out); errors.Is(err, fs.ErrNotExist) {
			folder.made = []string{out}
		}
		return folder, os.MkdirAll(out, 0o755)
	}
	const attempts = 1000
	base := filepath.Join(root, "results", started.Format("2006-01-02T15-04-05"))
	dir := base
	for n := 2; ; n++ {
		if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
			return Folder{}, err
		}
		err := os.Mkdir(dir, 0o755)
		switch {
		case err == nil:
			return Folder{dir, []string{dir, filepath.Dir(dir)}}, nil
		case errors.Is(err, os.ErrExist):
			dir = fmt.Sprintf("%s-%d", base, n)
		case !errors.Is(err, os.ErrNotExist) || n > attempts: // another run may remove an empty folder
			return Folder{}, err
		}
	}
}

// Discard removes the folder of a run that measured nothing, if the run made it. Folders with files
// remain, and so does a symbolic link in place of root/results, which os.Remove would remove
// whatever its folder contains.
func (f Folder) Discard() {
	for _, dir := range f.made {
		_ = unix.Rmdir(dir)
	}
}

func unwritable(err error) error {
	return UsageErrorf(OptionOut, "results cannot be written: %v; name another folder", err)
}

// Discard removes the files of a run that measured nothing.
func (r *Recorder) Discard() {
	if r.journal != nil {
		_ = r.journal.Close()
		_ = os.Remove(filepath.Join(r.folder.Path, sample.JournalFile))
		_ = os.Remove(filepath.Join(r.folder.Path, sample.RunFile))
	}
	r.folder.Discard()
	r.journal, r.folder = nil, Folder{}
}

// Close ends the run and returns it with its results folder.
func (r *Recorder) Close(err error) (*sample.Run, string, error) {
	r.Run.Seconds = time.Since(r.Run.Started).Seconds()
	if r.Save(); r.journal != nil {
		err = errors.Join(err, r.journal.Close())
	}
	return r.Run, r.folder.Path, err
}

// Add adds a record to the run and to the journal.
func (r *Recorder) Add(rec sample.Record) {
	r.Run.Records = append(r.Run.Records, rec)
	if r.journal == nil {
		return
	}
	if err := rec.Add(r.journal); err != nil {
		r.stopWriting(err)
		return
	}
	r.Run.Count++
}

// Log writes a message.
func (r *Recorder) Log(format string, args ...any) {
	if r.Logf != nil {
		r.Logf(format, args...)
	}
}

// Note adds a remark to the report. It does not mean that the run is incomplete.
func (r *Recorder) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Run.Notes = append(r.Run.Notes, text)
	r.Log("%s", text)
}

// Warn adds a warning to the report, which makes the run incomplete.
func (r *Recorder) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Run.Warnings = append(r.Run.Warnings, text)
	r.Log("%s", text)
}

func (w *runner) keepConfigs() {
	for contender, files := range w.written {
		for name, text := range files {
			file := filepath.Join(w.recorder.folder.Path, sample.ConfigsDir, contender, name)
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if err == nil {
				err = os.WriteFile(file, text, 0o644)
			}
			if err != nil {
				w.recorder.Warn("configurations cannot be written to disk: %v", err)
				return
			}
		}
	}
}

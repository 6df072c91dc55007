package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write writes the run without its records to a results folder, completely or not at all.
func (r *Run) Write(dir string) error {
	return WriteFile(filepath.Join(dir, RunFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	})
}

// Journal writes records to a file, each as a line of JSON.
type Journal struct{ file *os.File }

// NewJournal creates the file.
func NewJournal(name string) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Add writes a record. After an error it truncates an incomplete line, so that the earlier records
// remain readable.
func (j *Journal) Add(r *Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	end, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return errors.Join(err, j.file.Truncate(end))
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// WriteFile writes a file completely or not at all.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644) // CreateTemp makes files private; results are not
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

package sample

import (
	"encoding/json"
	"errors"
	"io"
	"os"
)

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

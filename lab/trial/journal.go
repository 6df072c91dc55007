package trial

import (
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Journal keeps records in a file, a line of JSON each, as they come.
type Journal struct{ file *os.File }

// NewJournal creates the file.
func NewJournal(name string) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Add writes a record. A line that could not be written whole is taken back, so
// that what was written before can be read.
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

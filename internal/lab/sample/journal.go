package sample

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write writes the run without its records to a results folder, completely or not at all.
func (r *Run) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, RunFile), append(text, '\n'))
}

// NewJournal creates the journal of a run in a results folder.
func NewJournal(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, JournalFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// Add writes the record to a journal, as a line of JSON. After an error it removes an incomplete line.
func (r *Record) Add(journal *os.File) error {
	end, err := journal.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(journal).Encode(r); err != nil {
		return errors.Join(err, journal.Truncate(end))
	}
	return nil
}

// WriteFile writes a file completely or not at all.
func WriteFile(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(content)
	// CreateTemp makes files private; results are not.
	if err = cmp.Or(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

// Names in a results folder.
const (
	RunFile     = "run.json"
	JournalFile = "trials.jsonl"
	ConfigsDir  = "configs" // configurations of contenders
)

// Read reads a results folder, or a file that Pack wrote. If the run did not end, because it was
// killed, Read returns what was written, with a warning. A damaged line of the journal is an error.
func Read(name string) (*Run, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return readPacked(name)
	}
	file := filepath.Join(name, RunFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%q has no %s: want a results folder that tare weigh wrote", name, RunFile)
	}
	if err != nil {
		return nil, err
	}
	journal, err := os.Open(filepath.Join(name, JournalFile))
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	return parse(file, b, bufio.NewReader(journal), journal.Name()+":")
}

// parse returns the run of a run.json with the records of its journal. at precedes the number of
// the journal's line in errors.
func parse(name string, text []byte, journal *bufio.Reader, at string) (*Run, error) {
	run := new(Run)
	if err := json.Unmarshal(text, run); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if run.Blocks < 0 || run.Blocks > maxBlocks {
		return nil, fmt.Errorf("%s: %d blocks: want at most %d", name, run.Blocks, maxBlocks)
	}
	if run.Seconds == 0 {
		run.Warnings = append(run.Warnings, "the run was killed: the report covers the trials until then")
	}
	if err := run.readJournal(journal); err != nil {
		return nil, fmt.Errorf("%s%w", at, err)
	}
	return run, nil
}

const maxBlocks = 10_000 // limits the memory that a damaged file can claim

// readJournal adds the records of a journal. The error begins with the number of its line.
func (r *Run) readJournal(lines *bufio.Reader) error {
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && r.Count > len(r.Records):
			return fmt.Errorf("%d: has %d of %d records", n, len(r.Records), r.Count)
		case errors.Is(err, io.EOF) && len(line) > 0:
			r.Warnings = append(r.Warnings, "the last record is incomplete and left out")
			return nil
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%d: %w", n, err)
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
		if err := rec.check(); err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
		r.Records = append(r.Records, rec)
		r.Blocks = max(r.Blocks, rec.Block) // more than planned, if the run was to end by its intervals
	}
}

// check returns an error for a record that no run writes.
func (r *Record) check() error {
	least := 1
	if r.Attribution != nil {
		least = 0 // a trial that counts has no block
	}
	switch {
	case r.Contender == "":
		return errors.New("missing contender")
	case r.Block < least || r.Block > maxBlocks:
		return fmt.Errorf("invalid block %d: want %d to %d", r.Block, least, maxBlocks)
	case r.Failure == "" && r.Load == nil && r.Values == nil && r.Idle == nil:
		return errors.New("no result and no failure")
	case r.Failure == "" && r.Load != nil && r.Load.Latency == nil:
		return errors.New("missing latency")
	}
	return nil
}

// PackedSuffix ends the names of files that Pack writes.
const PackedSuffix = ".jsonl.gz"

// Pack returns the run and its journal as one small file. It first rounds the run's latencies to
// 0.8 %, and removes the distributions and seconds of the load that no table shows.
func (r *Run) Pack() ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	r.Count = len(r.Records)
	if r.Events != nil {
		for i := range r.Events.Cases {
			if s := r.Events.Cases[i].Streams; s != nil {
				for j := range s.Phases {
					s.Phases[j].Latency = s.Phases[j].Latency.Coarse()
				}
			}
		}
	}
	lines := json.NewEncoder(zip)
	if err := lines.Encode(r); err != nil {
		return nil, err
	}
	for i := range r.Records {
		if l := r.Records[i].Load; l != nil {
			l.Latency, l.Connect, l.Generator.Lag = l.Latency.Coarse(), l.Connect.Coarse(), l.Generator.Lag.Coarse()
			l.Service, l.FirstByte, l.Timeline = nil, nil, nil
		}
		if err := lines.Encode(&r.Records[i]); err != nil {
			return nil, err
		}
	}
	err = zip.Close()
	return packed.Bytes(), err
}

func readPacked(name string) (*Run, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: want a file that tare report --pack wrote: %w", name, err)
	}
	lines := bufio.NewReader(zip)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return parse(name, first, lines, name+": record ")
}

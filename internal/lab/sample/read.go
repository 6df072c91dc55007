package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Names in a results folder.
const (
	RunFile     = "run.json"
	JournalFile = "trials.jsonl"
	ConfigsDir  = "configs" // configurations of contenders
)

// Read reads a results folder. It ignores an incomplete last
// line of the journal, as a killed run leaves it.
func Read(dir string) (*Run, error) {
	name := filepath.Join(dir, RunFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%q has no %s: want a results folder that tare weigh wrote", dir, RunFile)
	}
	if err != nil {
		return nil, err
	}
	run := new(Run)
	if err := json.Unmarshal(b, run); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if run.Blocks < 0 || run.Blocks > maxBlocks {
		return nil, fmt.Errorf("%s: %d blocks: want at most %d", name, run.Blocks, maxBlocks)
	}
	journal, err := os.Open(filepath.Join(dir, JournalFile))
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	for lines := json.NewDecoder(journal); ; {
		var r Record
		err := lines.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return run, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", journal.Name(), err)
		}
		if r.Block < 0 || r.Block > run.Blocks {
			return nil, fmt.Errorf("%s: invalid block %d of %d", journal.Name(), r.Block, run.Blocks)
		}
		run.Records = append(run.Records, r)
	}
}

// maxBlocks limits the memory that a damaged file can claim.
const maxBlocks = 10_000

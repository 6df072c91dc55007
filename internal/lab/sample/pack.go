package sample

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// PackedSuffix ends the names of files that Pack writes.
const PackedSuffix = ".jsonl.gz"

// Pack writes the run and its journal as one small file. It first rounds the run's latencies to
// 0.8 %, and removes the distributions and seconds of the load that no table shows.
func (r *Run) Pack(w io.Writer) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
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
		return err
	}
	for i := range r.Records {
		if l := r.Records[i].Load; l != nil {
			l.Latency, l.Connect, l.Generator.Lag = l.Latency.Coarse(), l.Connect.Coarse(), l.Generator.Lag.Coarse()
			l.Service, l.FirstByte, l.Timeline = nil, nil, nil
		}
		if err := lines.Encode(&r.Records[i]); err != nil {
			return err
		}
	}
	return zip.Close()
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
	run, err := parse(name, first)
	if err != nil {
		return nil, err
	}
	if err := run.readJournal(lines); err != nil {
		return nil, fmt.Errorf("%s: record %w", name, err)
	}
	return run, nil
}

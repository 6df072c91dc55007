package report

import (
	"io"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/timeline"
)

// Names of the files of events.
const (
	eventsFile = "events.csv"
	memoryFile = "memory.csv"
)

// writeSeconds writes a line for each case, group and second.
func (a *Report) writeSeconds(w io.Writer) error {
	var lines document.CSV
	heads := "case clients second"
	for _, o := range timeline.Outcomes() {
		heads += " " + strings.ReplaceAll(string(o), " ", "_")
	}
	for i := range a.Events.Cases {
		c := &a.Events.Cases[i]
		for g := range c.Groups {
			for second := range c.Groups[g].Seconds {
				s := &c.Groups[g].Seconds[second]
				line := []any{c.Name, a.Events.Groups[g].Name, second}
				for _, o := range timeline.Outcomes() {
					line = append(line, s.Outcomes[o])
				}
				lines.Add(append(line, float64(s.Slowest)/1e6, float64(s.Latest)/1e6)...)
			}
		}
	}
	return lines.Write(w, heads+" slowest_ms latest_ms")
}

// writeMemory writes a line for each case and sample.
func (a *Report) writeMemory(w io.Writer) error {
	var lines document.CSV
	for i := range a.Events.Cases {
		for _, s := range a.Events.Cases[i].Samples {
			lines.Add(a.Events.Cases[i].Name, s.At.Round(time.Millisecond).Seconds(), s.Memory, s.Sockets, s.Crowd,
				s.Ended)
		}
	}
	return lines.Write(w, "case s memory_bytes sockets_bytes crowd ended")
}

package report

import (
	"io"
	"slices"
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
	type row struct {
		of, group string
		second    int
		*timeline.Second
	}
	var rows []row
	for i := range a.Events.Cases {
		c := &a.Events.Cases[i]
		for g := range c.Groups {
			for s := range c.Groups[g].Seconds {
				rows = append(rows, row{c.Name, a.Events.Groups[g].Name, s, &c.Groups[g].Seconds[s]})
			}
		}
	}
	columns := []document.Column[row]{
		document.Text("case", func(l row) string { return l.of }),
		document.Text("clients", func(l row) string { return l.group }),
		document.Count("second", func(l row) int { return l.second }),
	}
	for _, o := range timeline.Outcomes() {
		name := strings.ReplaceAll(string(o), " ", "_")
		columns = append(columns, document.Count(name, func(l row) int { return l.Outcomes[o] }))
	}
	columns = append(columns,
		document.Figure("slowest_ms", func(l row) float64 { return float64(l.Slowest) / 1e6 }),
		document.Figure("latest_ms", func(l row) float64 { return float64(l.Latest) / 1e6 }))
	return document.WriteCSV(w, columns, slices.Values(rows))
}

// writeMemory writes a line for each case and sample.
func (a *Report) writeMemory(w io.Writer) error {
	type row struct {
		of string
		timeline.Sample
	}
	var rows []row
	for i := range a.Events.Cases {
		for _, s := range a.Events.Cases[i].Samples {
			rows = append(rows, row{a.Events.Cases[i].Name, s})
		}
	}
	return document.WriteCSV(w, []document.Column[row]{
		document.Text("case", func(l row) string { return l.of }),
		document.Figure("s", func(l row) float64 { return l.At.Round(time.Millisecond).Seconds() }),
		document.Count("memory_bytes", func(l row) int { return int(l.Memory) }),
		document.Count("sockets_bytes", func(l row) int { return int(l.Sockets) }),
		document.Count("crowd", func(l row) int { return l.Crowd }),
		document.Count("ended", func(l row) int { return l.Ended }),
	}, slices.Values(rows))
}

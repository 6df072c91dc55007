package report

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/table"
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
	columns := []table.Column[row]{
		table.Text("case", func(l row) string { return l.of }),
		table.Text("clients", func(l row) string { return l.group }),
		table.Count("second", func(l row) int { return l.second }),
	}
	for _, o := range timeline.Outcomes() {
		name := strings.ReplaceAll(string(o), " ", "_")
		columns = append(columns, table.Count(name, func(l row) int { return l.Outcomes[o] }))
	}
	columns = append(columns,
		table.Figure("slowest_ms", func(l row) float64 { return float64(l.Slowest) / 1e6 }),
		table.Figure("latest_ms", func(l row) float64 { return float64(l.Latest) / 1e6 }))
	return table.WriteCSV(w, columns, slices.Values(rows))
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
	return table.WriteCSV(w, []table.Column[row]{
		table.Text("case", func(l row) string { return l.of }),
		table.Figure("s", func(l row) float64 { return l.At.Round(time.Millisecond).Seconds() }),
		table.Count("memory_bytes", func(l row) int { return int(l.Memory) }),
		table.Count("sockets_bytes", func(l row) int { return int(l.Sockets) }),
		table.Count("crowd", func(l row) int { return l.Crowd }),
		table.Count("ended", func(l row) int { return l.Ended }),
	}, slices.Values(rows))
}

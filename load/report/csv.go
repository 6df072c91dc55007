package report

import (
	"cmp"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// column is a figure with its name: camelCase, with the unit at the end, as in the JSON.
type column struct{ name, value string }

// columns returns the figures of a run that fit into a row.
func (r *Run) columns() []column {
	whole := func(n uint64) string { return strconv.FormatUint(n, 10) }
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
	all := []column{
		{"started", r.About.Started.UTC().Format(time.RFC3339Nano)},
		{"url", r.URL}, {"connections", strconv.Itoa(r.Connections)}, {"threads", strconv.Itoa(r.Threads)},
		{"seconds", number(r.Seconds)}, {"requests", whole(r.Requests)}, {"requestsPerSecond", number(r.PerSecond())},
		{"due", number(r.Due)}, {"inFlight", whole(r.InFlight)}, {"noResponse", whole(r.NoResponse)},
		{"receivedBytes", whole(r.Bytes)}, {"bodyBytes", whole(r.BodyBytes)}, {"events", whole(r.Events)}, {"sentBytes", whole(r.SentBytes)},
		{"errors", whole(r.Errors.Total())},
	}
	for kind, n := range r.Errors.Kinds() {
		all = append(all, column{kind.String() + "Errors", whole(n)})
	}
	all = append(all, column{"connectionsBefore", whole(r.Opened)}, column{"connectionsMeasured", whole(r.Connects)})
	for _, h := range []struct {
		prefix    string
		durations *hist.Histogram
	}{
		{"latency", r.Latency}, {"service", r.Service}, {"firstByte", r.FirstByte},
		{"betweenEvents", cmp.Or(r.BetweenEvents, hist.New())},
	} {
		for _, s := range statistics(h.durations) {
			name := h.prefix + sentence(strings.ReplaceAll(s.name, ".", "")) + "Ns"
			all = append(all, column{name, strconv.FormatInt(int64(s.value), 10)})
		}
	}
	return append(all,
		column{"generatorUserSeconds", number(r.Generator.UserSeconds)},
		column{"generatorSysSeconds", number(r.Generator.SysSeconds)},
		column{"generatorBusyShare", number(r.Generator.Busy)},
		column{"agents", strconv.Itoa(len(r.Parts))}, column{"doubts", strings.Join(r.Doubts(), "; ")})
}

// WriteCSV writes a row of names and a row of the run's figures.
func (r *Run) WriteCSV(w io.Writer) error {
	var names, values []string
	for _, c := range r.columns() {
		names, values = append(names, c.name), append(values, c.value)
	}
	out := csv.NewWriter(w)
	_ = out.Write(names) // the writer keeps its first error
	_ = out.Write(values)
	out.Flush()
	return out.Error()
}

// WriteSamples writes a row for each sample. Times are in nanoseconds since measuring began, except
// the connect time, which is a duration.
func (r *Run) WriteSamples(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"connectNs", "dueNs", "sentNs", "firstNs", "doneNs", "status", "receivedBytes", "bodyBytes",
		"failure", "connection", "request", "kept",
	})
	row := make([]string, 0, 12)
	for i := range r.Samples {
		s := &r.Samples[i]
		row = row[:0]
		for _, n := range []int64{
			int64(s.Connect), int64(s.Due), int64(s.Sent), int64(s.First), int64(s.Done), int64(s.Status), s.Bytes,
			s.Body,
		} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, s.Failure.String(), strconv.Itoa(int(s.Connection)), strconv.Itoa(int(s.Request)),
			strconv.FormatBool(s.Kept))
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

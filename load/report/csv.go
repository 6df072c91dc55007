package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

// column is a figure with its name, which ends in its unit.
type column struct{ name, value string }

// columns returns the figures of a run that fit into a row.
func (r *Run) columns() []column {
	whole := func(n uint64) string { return strconv.FormatUint(n, 10) }
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
	all := []column{
		{"started", r.About.Started.UTC().Format(time.RFC3339Nano)},
		{"url", r.URL}, {"connections", strconv.Itoa(r.Connections)}, {"threads", strconv.Itoa(r.Threads)},
		{"seconds", number(r.Seconds)}, {"requests", whole(r.Requests)}, {"requests_per_sec", number(r.PerSecond())},
		{"due", number(r.Asked)}, {"unanswered", whole(r.Unanswered)},
		{"received_bytes", whole(r.Bytes)}, {"body_bytes", whole(r.BodyBytes)}, {"sent_bytes", whole(r.SentBytes)},
		{"errors", whole(r.Errors.Total())}, {"connect_errors", whole(r.Errors.Connect)}, {"read_errors", whole(r.Errors.Read)},
		{"write_errors", whole(r.Errors.Write)}, {"timeouts", whole(r.Errors.Timeout)}, {"status_errors", whole(r.Errors.Status)},
		{"body_errors", whole(r.Errors.Body)}, {"header_errors", whole(r.Errors.Header)},
		{"connections_before", whole(r.Opened)}, {"connections_measured", whole(r.Connects)},
	}
	for _, t := range []struct {
		prefix string
		Times
	}{
		{"latency_", Times{"", r.Latency}}, {"service_", Times{"", r.Service}}, {"first_byte_", Times{"", r.FirstByte}},
	} {
		for _, v := range []struct {
			name string
			d    time.Duration
		}{
			{"mean", t.Mean()}, {"stdev", t.Stdev()}, {"min", t.Quantile(0)}, {"p50", t.Quantile(0.5)}, {"p90", t.Quantile(0.9)},
			{"p99", t.Quantile(0.99)}, {"p99_9", t.Quantile(0.999)}, {"max", t.Max()},
		} {
			all = append(all, column{t.prefix + v.name + "_ns", strconv.FormatInt(int64(v.d), 10)})
		}
	}
	return append(all,
		column{"generator_user_sec", number(r.Generator.UserSeconds)}, column{"generator_sys_sec", number(r.Generator.SysSeconds)},
		column{"generator_busy", number(r.Generator.Busy)}, column{"doubts", strings.Join(r.Doubts(), "; ")})
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
		"connect_ns", "due_ns", "sent_ns", "first_ns", "done_ns", "status", "bytes", "body_bytes",
		"failure", "connection", "request", "kept",
	})
	row := make([]string, 0, 12)
	for i := range r.Samples {
		s := &r.Samples[i]
		row = row[:0]
		for _, n := range []int64{
			int64(s.Connect), int64(s.Due), int64(s.Sent), int64(s.First), int64(s.Done), int64(s.Status), s.Bytes, s.Body,
		} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, failureName(s.Failure), strconv.Itoa(int(s.Connection)), strconv.Itoa(int(s.Request)), strconv.FormatBool(s.Kept))
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// failureName returns the name of a failure in the error counts; empty for none.
func failureName(f load.Failure) string {
	switch f {
	case load.FailedConnect:
		return "connect"
	case load.FailedRead:
		return "read"
	case load.FailedWrite:
		return "write"
	case load.FailedTimeout:
		return "timeout"
	case load.FailedStatus:
		return "status"
	case load.FailedBody:
		return "body"
	case load.FailedHeader:
		return "header"
	}
	return ""
}

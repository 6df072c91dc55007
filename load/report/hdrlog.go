package report

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/tarehq/tare/internal/printable"
)

const hdrTag = "latency" // tag of the lines of an HDR histogram log

// WriteHDRLog writes the latency of each second as an HDR histogram log, version 1.3
// (github.com/HdrHistogram/HdrHistogram, HistogramLogWriter). Each line has a tag, its start in
// seconds since the run's start, its length, its maximum in milliseconds, and the histogram in
// nanoseconds. Seconds without a histogram have no line.
func (r *Run) WriteHDRLog(w io.Writer) error {
	out := bufio.NewWriter(w)
	start := r.About.Started.UTC()
	since := float64(start.UnixMilli()) / 1e3
	fmt.Fprintf(out, "#[Latency of %s in nanoseconds, logged by tare %s]\n", printable.Text(r.URL, ""),
		printable.Text(r.About.Tool, ""))
	fmt.Fprintf(out, "#[Histogram log format version 1.3]\n")
	fmt.Fprintf(out, "#[BaseTime: %.3f (seconds since epoch)]\n", since)
	fmt.Fprintf(out, "#[StartTime: %.3f (seconds since epoch), %s]\n", since, start.Format(time.RFC3339))
	fmt.Fprintln(out, `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`)
	for i, s := range r.Timeline {
		if s.Latency.Encoded == "" {
			continue
		}
		fmt.Fprintf(out, "Tag=%s,%.3f,%.3f,%.3f,%s\n", hdrTag, float64(i), r.SecondLength(i),
			float64(s.Latency.Max)/float64(time.Millisecond), s.Latency.Encoded)
	}
	return out.Flush()
}

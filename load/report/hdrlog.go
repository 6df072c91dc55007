package report

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// hdrTag is the tag of the lines of an HDR histogram log.
const hdrTag = "latency"

// WriteHDRLog writes the latency of each second as a log of HDR histograms, version 1.3
// (github.com/HdrHistogram/HdrHistogram, HistogramLogWriter): a line for each, with a tag, when
// it began in seconds since the start, how long it was, its maximum in milliseconds, and the
// histogram in nanoseconds. Seconds of which none was kept have no line.
func (r *Run) WriteHDRLog(w io.Writer) error {
	out := bufio.NewWriter(w)
	start := r.About.Started.UTC()
	since := float64(start.UnixMilli()) / 1e3
	fmt.Fprintf(out, "#[Latency of %s in nanoseconds, logged by tare %s]\n", printable(r.URL), printable(r.About.Tool))
	fmt.Fprintf(out, "#[Histogram log format version 1.3]\n")
	fmt.Fprintf(out, "#[BaseTime: %.3f (seconds since epoch)]\n", since)
	fmt.Fprintf(out, "#[StartTime: %.3f (seconds since epoch), %s]\n", since, start.Format(time.RFC3339))
	fmt.Fprintln(out, `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`)
	for i, s := range r.Timeline {
		if s.Latency.Encoded == "" {
			continue
		}
		fmt.Fprintf(out, "Tag=%s,%.3f,%.3f,%.3f,%s\n", hdrTag, float64(i), r.SecondLength(i), float64(s.Latency.Max)/float64(time.Millisecond), s.Latency.Encoded)
	}
	return out.Flush()
}

// printable is a text without what could end a line, or the comment it is in.
func printable(s string) string {
	b := []rune(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

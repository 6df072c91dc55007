package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// printLoad writes the report for a person.
func printLoad(out io.Writer, r *load.Result) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "%s\n%d connections, %d threads, %.1fs\n\n", r.URL, r.Connections, r.Threads, r.Seconds)
	fmt.Fprintf(w, "requests\t%d\t%s/s\n", r.Requests, count(r.PerSecond()))
	fmt.Fprintf(w, "received\t%s\t%s/s\n", size(float64(r.Bytes)), size(float64(r.Bytes)/max(r.Seconds, 1e-9)))
	printTimes(w, r)
	fmt.Fprintf(w, "statuses\t%s\n", statuses(r.Statuses))
	fmt.Fprintf(w, "errors\t%s\n", errorKinds(r.Errors))
	fmt.Fprintf(w, "connections\t%d made before\t%d while measuring\n", r.Opened, r.Connects)
	fmt.Fprintf(w, "generator\t%.0f%% busy\t%s requests per CPU second\n", 100*r.Generator.Busy, count(r.PerCPUSecond()))
	if f := r.FastCGI; f != nil {
		fmt.Fprintf(w, "FastCGI\t%s on STDERR\t%d exit codes not 0\t%d requests sent again\n", size(float64(f.StderrBytes)), f.Exits, f.Resent)
	}
	if len(r.Timeline) > 1 {
		fmt.Fprintf(w, "each second\t%s\n", sparkline(r.Timeline, r.Seconds))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Errors.First != "" {
		fmt.Fprintf(out, "\nfirst error: %s\n", r.Errors.First)
	}
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		fmt.Fprintf(out, "\nfirst on STDERR: %q\n", f.Stderr)
	}
	for _, doubt := range r.Doubts() {
		fmt.Fprintf(out, "\n%s.\n", strings.ToUpper(doubt[:1])+doubt[1:])
	}
	return nil
}

// printTimes writes the distributions of times. In a closed loop a request is due when it is
// sent.
func printTimes(w io.Writer, r *load.Result) {
	open := r.Asked > 0
	if open {
		fmt.Fprintf(w, "due\t%.0f\t%.1f%% answered\n", r.Asked, 100*float64(r.Requests)/r.Asked)
		printTime(w, "since due", r.Latency)
		printTime(w, "since sent", r.Service)
	} else {
		printTime(w, "latency", r.Latency)
	}
	printTime(w, "first byte", r.FirstByte)
	if open {
		printTime(w, "sent late", r.Generator.Lag)
	}
	if r.Unanswered > 0 {
		fmt.Fprintf(w, "unanswered\t%d at the end\n", r.Unanswered)
	}
}

func printTime(w io.Writer, name string, h *hist.Histogram) {
	fmt.Fprintf(w, "%s\tmean %s\tstdev %s\t", name, short(h.Mean()), short(h.Stdev()))
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		fmt.Fprintf(w, "%.4g%% %s\t", 100*q, short(h.Quantile(q)))
	}
	fmt.Fprintf(w, "max %s\n", short(h.Max()))
}

func statuses(m map[int]uint64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d: %d", code, m[code]))
	}
	return strings.Join(parts, "  ")
}

func errorKinds(e load.Errors) string {
	if e.Total() == 0 {
		return "none"
	}
	return fmt.Sprintf("connect %d  read %d  write %d  timeout %d  status %d", e.Connect, e.Read, e.Write, e.Timeout, e.Status)
}

// sparkline draws the rate of each second; the last may be a part of one.
func sparkline(seconds []load.Second, total float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	rates := make([]float64, len(seconds))
	for i, s := range seconds {
		rates[i] = float64(s.Requests) / min(1, max(total-float64(i), 0.05))
	}
	most := max(slices.Max(rates), 1)
	var s strings.Builder
	for _, rate := range rates {
		s.WriteRune(bars[int(rate/most*float64(len(bars)-1)+0.5)])
	}
	return fmt.Sprintf("%s  %s to %s requests/s", s.String(), count(slices.Min(rates)), count(most))
}

// count writes a number as people read it: 116,154.
func count(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3gs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3gms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3gµs", d.Seconds()*1e6)
}

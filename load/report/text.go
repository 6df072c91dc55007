package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/textbar"
	"github.com/tarehq/tare/load"
)

const (
	barWidth   = 44 // width of the percentile curve's bars, in columns
	sparkWidth = 36 // most columns of the timeline
	// logFrom is the ratio of the longest to the shortest bar above which bars are logarithmic. The
	// short ones would be invisible otherwise.
	logFrom = 40
)

// WriteText writes the report for a terminal. The table of latencies is near the end, which
// a terminal of 24 lines shows.
func (r *Run) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.URL, r.Circumstances())
	r.writeCurve(&b)
	r.writeFigures(&b)
	r.Times().write(&b)
	r.Agents().write(&b)
	for _, warning := range r.Warnings() {
		fmt.Fprintf(&b, "\n%s\n", Note(warning))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Note breaks a sentence of a report at words, for a terminal.
func Note(text string) string { return textbar.Wrap(text, textbar.Columns, "") }

// sentence returns s with its first letter in upper case.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Circumstances returns the settings needed to interpret the figures.
func (r *Run) Circumstances() string {
	loop := "closed loop"
	if r.Open() {
		loop = "open loop"
	}
	if n := len(r.Parts); n > 0 {
		loop += ", " + Plural(n, "agent")
	}
	return fmt.Sprintf("%s, %s, %ss, %s", Plural(r.Connections, "connection"), Plural(r.Threads, "thread"),
		threeDigits(r.Seconds), loop)
}

// Plural returns a number with a noun, which ends in s unless the number is 1.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Table is a table of the text and of the page. Its first row is the head.
type Table [][]string

// write writes a table with values for a terminal. Its first column holds names.
func (t Table) write(b *strings.Builder) {
	if len(t) < 2 {
		return
	}
	wide := 0
	for _, row := range t {
		wide = max(wide, utf8.RuneCountInString(row[0]))
	}
	fmt.Fprintln(b)
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, row := range t {
		fmt.Fprintf(w, "%-*s\t%s\t\n", wide, row[0], strings.Join(row[1:], "\t"))
	}
	_ = w.Flush()
}

// writeCurve draws the percentile curve with one row per percentile; each row halves the share of
// slower requests. In an open loop, each bar has two parts: the time since sent, and the wait
// before it.
func (r *Run) writeCurve(b *strings.Builder) {
	if r.Latency.Count() == 0 {
		return
	}
	at := page.Shares(r.Latency.Count())
	scale := newBarScale(r.Latency.Quantile(at[0]), r.Latency.Max())
	fmt.Fprintf(b, "percentiles of latency%s%s\n", map[bool]string{true: ": █ since sent, ░ since due"}[r.Open()],
		scale.note())
	row := func(name string, due, sent time.Duration) {
		bar := textbar.Bar(scale.share(due), barWidth)
		if r.Open() {
			whole := len([]rune(bar))
			bar = strings.Repeat("█", min(whole, int(scale.share(sent)*barWidth+0.5)))
			bar += strings.Repeat("░", whole-len([]rune(bar)))
		}
		fmt.Fprintf(b, "%10s  %8s  %s\n", name, Duration(due), bar)
	}
	for _, share := range at {
		row(percentOf(share), r.Latency.Quantile(share), r.Service.Quantile(share))
	}
	row("max", r.Latency.Max(), r.Service.Max())
	fmt.Fprintln(b)
}

type barScale struct {
	from, to time.Duration
	log      bool
}

func newBarScale(shortest, longest time.Duration) barScale {
	if shortest > 0 && longest > logFrom*shortest {
		return barScale{shortest / 2, longest, true}
	}
	return barScale{0, max(longest, 1), false}
}

func (s barScale) share(d time.Duration) float64 {
	if s.log {
		return max(0, math.Log(float64(max(d, 1))/float64(s.from))/math.Log(float64(s.to)/float64(s.from)))
	}
	return float64(d) / float64(s.to)
}

func (s barScale) note() string {
	if s.log {
		return fmt.Sprintf(" (logarithmic, from %s)", Duration(s.from))
	}
	return ""
}

func (r *Run) writeFigures(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	for _, figure := range r.Figures() {
		fmt.Fprintln(w, strings.Join(figure, "\t"))
	}
	fmt.Fprintf(w, "statuses\t%s\nerrors\t%s\n", r.statuses(), Errors(&r.Errors))
	if len(r.Timeline) > 1 {
		rates := r.rates()
		fmt.Fprintf(w, "each second\t%s  %s to %s requests/s\n", textbar.Sparkline(rates, sparkWidth),
			Count(slices.Min(rates)), Count(slices.Max(rates)))
	}
	_ = w.Flush()
}

// Figures returns the totals of the run, each with its name first.
func (r *Run) Figures() (all [][]string) {
	line := func(name string, cells ...string) { all = append(all, append([]string{name}, cells...)) }
	perSecond := func(bytes uint64) string { return sizeText(float64(bytes)/max(r.Seconds, 1e-9)) + "/s" }
	line("requests", fmt.Sprint(r.Requests), Count(r.PerSecond())+"/s")
	if r.Open() {
		line("due", fmt.Sprintf("%.0f", r.Due),
			fmt.Sprintf("%.1f%% with a response", 100*float64(r.Requests)/max(r.Due, 1)),
			fmt.Sprintf("%d in flight at the end", r.InFlight))
	}
	if r.NoResponse > 0 {
		line("no response", fmt.Sprintf("%d at the end", r.NoResponse))
	}
	if r.Events > 0 {
		line("events", fmt.Sprint(r.Events), Count(float64(r.Events)/max(r.Seconds, 1e-9))+"/s")
	}
	line("received", sizeText(float64(r.Bytes)), perSecond(r.Bytes),
		sizeText(r.perRequest(float64(r.BodyBytes)))+" of body per request")
	line("sent", sizeText(float64(r.SentBytes)), perSecond(r.SentBytes))
	line("connections", fmt.Sprintf("%d opened before", r.Opened), fmt.Sprintf("%d while measuring", r.Connects))
	if f := r.FastCGI; f != nil {
		line("FastCGI", sizeText(float64(f.StderrBytes))+" on STDERR", fmt.Sprintf("%d nonzero exit codes", f.Exits),
			fmt.Sprintf("%d requests retried", f.Resent))
	}
	g := &r.Generator
	cpu := r.perRequest(g.UserSeconds + g.SysSeconds)
	line("generator", fmt.Sprintf("%.0f%% busy", 100*g.Busy), fmt.Sprintf("%.0f%% headroom", 100*max(0, 1-g.Busy)),
		Duration(time.Duration(cpu*1e9))+" of CPU time per request")
	return all
}

func (r *Run) statuses() string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d: %d", code, r.Statuses[code]))
	}
	return strings.Join(parts, "  ")
}

// CountErrors formats a number of errors, with the noun.
func CountErrors(n uint64) string {
	if n == 1 {
		return "1 error"
	}
	return Count(float64(n)) + " errors"
}

// Errors formats the errors by kind on one line.
func Errors(e *load.Errors) string {
	var parts []string
	for kind, n := range e.Kinds() {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, "  ")
}

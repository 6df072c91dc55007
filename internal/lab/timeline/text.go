package timeline

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
)

// line is a line of the table.
type line struct {
	*Case
	total Traffic
	sum   Second
}

// lines returns a line for each case that ran.
func (r *Run) lines() (all []line) {
	for i := range r.Cases {
		c := &r.Cases[i]
		if total := c.Total(); len(total.Seconds) > 0 {
			all = append(all, line{c, total, total.Sum()})
		}
	}
	return all
}

// Verdict returns the result in a few sentences: how many requests were lost, and the memory if
// there was a crowd.
func (r *Run) Verdict() string {
	lines := r.lines()
	if len(lines) == 0 {
		return "Nothing was measured."
	}
	var none []string
	for _, l := range lines {
		if l.sum.Lost() == 0 {
			none = append(none, l.Title)
		}
	}
	var sentences []string
	if len(none) > 0 {
		sentences = append(sentences, fmt.Sprintf("No request was lost with %s.", sample.List(none)))
	}
	lost := slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.sum.Lost() == 0 })
	slices.SortStableFunc(lost, func(a, b line) int { return cmp.Compare(a.sum.Lost(), b.sum.Lost()) })
	for i, l := range lost {
		sentences = append(sentences, r.lossSentence(&l, i == 0))
	}
	if r.HasCrowd() {
		sentences = append(sentences, memorySentence(lines))
	}
	return strings.Join(sentences, " ")
}

// lossSentence returns how many requests of a case were lost, when, and beside which crowd.
func (r *Run) lossSentence(l *line, isFirst bool) string {
	of := ""
	if isFirst {
		of = " requests"
	}
	text := fmt.Sprintf("%s lost %d of %d%s", l.Title, l.sum.Lost(), l.sum.Sent(), of)
	if crowd := l.CrowdAt(l.total.FirstLost); crowd > 0 {
		return text + fmt.Sprintf(", from %d slow connections on.", crowd)
	}
	return text + fmt.Sprintf(", within %s.", seconds(l.total.LastLost-l.total.FirstLost))
}

// memorySentence returns which case needed the most memory for its crowd, and which the least.
func memorySentence(lines []line) string {
	type growth struct {
		title string
		bytes int64
	}
	var all []growth
	for _, l := range lines {
		first, most := l.Peak()
		all = append(all, growth{l.Title, most.Memory - first.Memory})
	}
	slices.SortStableFunc(all, func(a, b growth) int { return cmp.Compare(a.bytes, b.bytes) })
	least, most := all[0], all[len(all)-1]
	if len(all) == 1 {
		return fmt.Sprintf("Memory grew by %s.", megabytes(least.bytes))
	}
	return fmt.Sprintf("Memory grew least with %s (%s) and most with %s (%s).", least.title, megabytes(least.bytes),
		most.title, megabytes(most.bytes))
}

// columns returns the table's columns. Those without table.Brief are in the details only.
func (r *Run) columns() []table.Column[line] {
	const everywhere = table.Brief | table.Terminal | table.Page
	count := func(name, head string, in table.Outputs, of func(line) int) table.Column[line] {
		return table.Count(name, of).For(in, head, func(l line) string { return strconv.Itoa(of(l)) })
	}
	outcome := func(o Outcome) table.Column[line] {
		name := strings.ReplaceAll(string(o), " ", "_")
		return count(name, string(o), everywhere, func(l line) int { return l.sum.Outcomes[o] })
	}
	all := []table.Column[line]{
		table.Text("case", func(l line) string { return l.Name }).
			For(everywhere, "", func(l line) string { return l.Title }),
		count("requests", "requests", table.Terminal|table.Page, func(l line) int { return l.sum.Sent() }),
		count("lost", "lost", everywhere, func(l line) int { return l.sum.Lost() }),
	}
	for _, o := range outcomes()[1:] {
		all = append(all, outcome(o))
	}
	all = append(all,
		table.Figure("lost_within_s", func(l line) float64 { return (l.total.LastLost - l.total.FirstLost).Seconds() }).
			For(table.Terminal|table.Page, "lost within", lostWithin),
		table.Figure("p99_ms", func(l line) float64 { return l.p99() }).
			For(everywhere, "p99", func(l line) string { return r.p99Text(&l) }),
		table.Figure("slowest_ms", func(l line) float64 { return float64(l.sum.Slowest) / 1e6 }).
			For(table.Terminal|table.Page, "slowest", func(l line) string { return millis(l.sum.Slowest) }),
		table.Figure("latest_ms", func(l line) float64 { return float64(l.sum.Latest) / 1e6 }).
			For(table.Terminal|table.Page, "sent late by", func(l line) string { return millis(l.sum.Latest) }))
	if r.HasCrowd() {
		all = append(all, count("crowd", "slow clients", table.Terminal|table.Page, func(l line) int {
			_, most := l.Peak()
			return most.Crowd
		}), sizes("memory_bytes", "memory", func(first, most Sample) int64 { return most.Memory }),
			sizes("sockets_bytes", "sockets", func(first, most Sample) int64 { return most.Sockets - first.Sockets }),
			sizes("files_bytes", "files", func(_, most Sample) int64 { return most.Files }),
			cores("server_cores", "cores", func(w *Work) time.Duration { return w.Server }),
			cores("clients_cores", "of clients", func(w *Work) time.Duration { return w.Clients }))
	}
	return all
}

// cores returns a column about CPU time, in processors. It is in the details only.
func cores(name, head string, of func(*Work) time.Duration) table.Column[line] {
	value := func(l line) float64 { return l.Work.share(of(&l.Work)) * float64(l.Work.Cores) }
	return table.Figure(name, value).
		For(table.Terminal|table.Page, head, func(l line) string { return strconv.FormatFloat(value(l), 'f', 2, 64) })
}

// p99 returns the time in milliseconds that 99 % of the requests did not exceed, or +Inf if more
// than 1 % were lost.
func (l *line) p99() float64 {
	if d, known := l.total.Quantile(0.99); known {
		return float64(d) / 1e6
	}
	return math.Inf(1)
}

func (r *Run) p99Text(l *line) string {
	if d, known := l.total.Quantile(0.99); known {
		return millis(d)
	}
	return "lost"
}

// sizes returns a column about a case's samples.
func sizes(name, head string, of func(first, most Sample) int64) table.Column[line] {
	value := func(l line) int64 { return of(l.Peak()) }
	return table.Figure(name, func(l line) float64 { return float64(value(l)) }).
		For(table.Brief|table.Terminal|table.Page, head, func(l line) string { return megabytes(value(l)) })
}

func lostWithin(l line) string {
	if l.sum.Lost() == 0 {
		return ""
	}
	return seconds(l.total.LastLost - l.total.FirstLost)
}

// WriteBrief writes what fits the first screen of a terminal.
func (r *Run) WriteBrief(w io.Writer) error {
	d := new(table.Document)
	d.Paragraph(r.Verdict())
	r.writeTable(d, table.Brief)
	d.Items(r.Problems())
	_, err := io.WriteString(w, d.String())
	return err
}

// WriteText writes the whole report for a terminal.
func (r *Run) WriteText(w io.Writer) error { return r.write(w, new(table.Document)) }

func (r *Run) writeMarkdown(w io.Writer) error { return r.write(w, &table.Document{Markdown: true}) }

func (r *Run) write(w io.Writer, d *table.Document) error {
	d.Heading("%s", r.Title)
	d.Paragraph(r.Verdict())
	r.writeTable(d, table.Terminal)
	d.Paragraph("Each character is a second: all requests were responded to (.), some (o) or none (#).")
	var strips [][]string
	for _, l := range r.lines() {
		strips = append(strips, []string{l.Title, l.strip()})
	}
	d.Table(2, []string{"", "seconds"}, strips)
	for _, l := range r.lines() {
		d.Paragraph(l.Title + ": " + l.About + ". " + l.events())
	}
	d.Items(r.Problems())
	d.Paragraph("Command: " + r.Command())
	_, err := io.WriteString(w, d.String())
	return err
}

func (r *Run) writeTable(d *table.Document, out table.Outputs) {
	heads, cells := table.Shown(out, r.columns(), slices.Values(r.lines()))
	d.Table(1, heads, cells)
}

// strip returns a character for each second.
func (l *line) strip() string {
	var b strings.Builder
	for i := range l.total.Seconds {
		switch s := &l.total.Seconds[i]; {
		case s.Lost() == 0:
			b.WriteByte('.')
		case s.Outcomes[Response] > 0:
			b.WriteByte('o')
		default:
			b.WriteByte('#')
		}
	}
	return b.String()
}

// events returns the case's marks as a sentence.
func (c *Case) events() string {
	var texts []string
	for _, m := range c.Marks {
		texts = append(texts, fmt.Sprintf("%s at %s", m.Text, seconds(m.At)))
	}
	if len(texts) == 0 {
		return ""
	}
	return "Events: " + strings.Join(texts, ", ") + "."
}

// Problems returns what a reader should know about the run's validity.
func (r *Run) Problems() (all []string) {
	all = slices.Clone(r.Warnings)
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Absent != "" {
			all = append(all, c.Title+": "+c.Absent)
		}
		if why := c.Disturbance(r.Timeout); why != "" {
			all = append(all, c.Title+": "+why+". What was lost may not be the server's fault.")
		}
	}
	return all
}

// Command returns the command line that repeats the run.
func (r *Run) Command() string {
	return strings.Join(append([]string{"tare", "weigh", r.Experiment}, r.Flags...), " ")
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/1e6, 'f', 0, 64) + " ms"
}

func megabytes(bytes int64) string {
	return strconv.FormatFloat(float64(bytes)/1e6, 'f', 0, 64) + " MB"
}

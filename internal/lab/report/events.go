package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

type caseLine struct {
	*sample.Case
	sum sample.Second
}

func (a *Report) caseLines() (all []caseLine) {
	for i := range a.Events.Cases {
		c := &a.Events.Cases[i]
		if len(c.Traffic.Seconds) > 0 {
			all = append(all, caseLine{c, c.Traffic.Sum()})
		}
	}
	return all
}

// eventsVerdict returns how many requests were lost, and the memory if there was a crowd.
func (a *Report) eventsVerdict() string {
	lines := a.caseLines()
	if streams := a.streamTables(); len(streams) > 0 {
		return streamsVerdict(streams)
	}
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
	lost := slices.DeleteFunc(slices.Clone(lines), func(l caseLine) bool { return l.sum.Lost() == 0 })
	slices.SortStableFunc(lost, func(x, y caseLine) int { return cmp.Compare(x.sum.Lost(), y.sum.Lost()) })
	for i, l := range lost {
		sentences = append(sentences, lossSentence(&l, i == 0))
	}
	if a.Events.HasCrowd() {
		sentences = append(sentences, memorySentence(lines))
	}
	return strings.Join(sentences, " ")
}

// lossSentence returns how many requests of a case were lost, when, and beside which crowd.
func lossSentence(l *caseLine, isFirst bool) string {
	of := ""
	if isFirst {
		of = " requests"
	}
	text := fmt.Sprintf("%s lost %d of %d%s", l.Title, l.sum.Lost(), l.sum.Sent(), of)
	if crowd := l.CrowdAt(l.Traffic.FirstLost); crowd > 0 {
		return text + fmt.Sprintf(", from %d slow connections on.", crowd)
	}
	return text + fmt.Sprintf(", within %s.", seconds(lossTime(l)))
}

// memorySentence returns which case needed the most memory for its crowd, and which the least.
func memorySentence(lines []caseLine) string {
	growth := func(l caseLine) int64 {
		first, most := l.Peak()
		return most.Memory - first.Memory
	}
	byGrowth := func(a, b caseLine) int { return cmp.Compare(growth(a), growth(b)) }
	least, most := slices.MinFunc(lines, byGrowth), slices.MaxFunc(lines, byGrowth)
	if len(lines) == 1 {
		return fmt.Sprintf("Memory grew by %s.", megabytes(growth(least)))
	}
	return fmt.Sprintf("Memory grew least with %s (%s) and most with %s (%s).", least.Title,
		megabytes(growth(least)), most.Title, megabytes(growth(most)))
}

// caseColumns returns the columns of the table of cases. Some are in the details only.
func (a *Report) caseColumns() []document.Column[caseLine] {
	count := func(name, head string, of func(caseLine) int) document.Column[caseLine] {
		return document.Count(name, of).For(head, func(l caseLine) string { return strconv.Itoa(of(l)) })
	}
	all := []document.Column[caseLine]{
		document.Text("case", func(l caseLine) string { return l.Name }).
			For("", func(l caseLine) string { return l.Title }).InBrief(),
		count("requests", "requests", func(l caseLine) int { return l.sum.Sent() }),
		count("lost", "lost", func(l caseLine) int { return l.sum.Lost() }).InBrief(),
	}
	for _, o := range sample.Outcomes()[1:] {
		all = append(all, count(strings.ReplaceAll(string(o), " ", "_"), string(o),
			func(l caseLine) int { return l.sum.Outcomes[o] }).InBrief())
	}
	all = append(all,
		document.Figure("lost_within_s", func(l caseLine) float64 { return lossTime(&l).Seconds() }).
			For("lost within", func(l caseLine) string {
				if l.sum.Lost() == 0 {
					return ""
				}
				return seconds(lossTime(&l))
			}),
		document.Figure("p99_ms", func(l caseLine) float64 { return l.p99() }).
			For("p99", func(l caseLine) string {
				if math.IsInf(l.p99(), 1) {
					return "lost"
				}
				return fixed(0, l.p99()) + " ms"
			}).InBrief(),
		document.Figure("slowest_ms", func(l caseLine) float64 { return float64(l.sum.Slowest) / 1e6 }).
			For("slowest", func(l caseLine) string { return wholeMillis(l.sum.Slowest) }),
		document.Figure("latest_ms", func(l caseLine) float64 { return float64(l.sum.Latest) / 1e6 }).
			For("sent late by", func(l caseLine) string { return wholeMillis(l.sum.Latest) }))
	if a.Events.HasCrowd() {
		all = append(all, count("crowd", "slow clients", func(l caseLine) int {
			_, most := l.Peak()
			return most.Crowd
		}), sizeColumn("memory_bytes", "memory", func(first, most sample.Moment) int64 { return most.Memory }),
			sizeColumn("sockets_bytes", "sockets",
				func(first, most sample.Moment) int64 { return most.Sockets - first.Sockets }),
			sizeColumn("files_bytes", "files", func(_, most sample.Moment) int64 { return most.Files }))
	}
	return all
}

// p99 returns the time in milliseconds that 99 % of the requests did not exceed, or +Inf if more
// than 1 % were lost.
func (l *caseLine) p99() float64 {
	if d, known := l.Traffic.Quantile(0.99); known {
		return float64(d) / 1e6
	}
	return math.Inf(1)
}

func sizeColumn(name, head string, of func(first, most sample.Moment) int64) document.Column[caseLine] {
	value := func(l caseLine) int64 { return of(l.Peak()) }
	return document.Figure(name, func(l caseLine) float64 { return float64(value(l)) }).
		For(head, func(l caseLine) string { return megabytes(value(l)) }).InBrief()
}

func lossTime(l *caseLine) time.Duration { return l.Traffic.LastLost - l.Traffic.FirstLost }

func (a *Report) addEvents(d *document.Document) {
	if a.Events == nil {
		return
	}
	d.Add(a.caseTables(false)...)
	if len(a.streamTables()) > 0 {
		return
	}
	note := "Requests, and what their clients received."
	for _, g := range a.Events.Groups {
		note += fmt.Sprintf(" %s: %v requests per second.", g.Name, g.Rate)
	}
	d.Add(document.Note(fmt.Sprintf("%s No client sends a request twice. A client waits %v for a response.", note,
		a.Events.Timeout)))
	lines := a.caseLines()
	for i := range lines {
		l := &lines[i]
		chart := a.strip(l)
		if i == 0 {
			chart.Legend = outcomeLegend(lines)
		}
		d.Add(document.Heading{Level: 3, Text: l.Title}, document.Note(l.About+". "+marksText(l.Case)),
			document.Chart{Drawing: chart,
				Text: l.strip() + "   a second each: all requests were responded to (.), some (o) or none (#)"})
	}
}

// caseTables returns the table of the cases, or a table for each kind and number of streams.
func (a *Report) caseTables(brief bool) (blocks []document.Block) {
	streams := a.streamTables()
	if len(streams) == 0 {
		return []document.Block{document.Rows(brief, 1, a.caseColumns(), a.caseLines(), nil)}
	}
	for _, t := range streams {
		blocks = append(blocks, document.Heading{Level: 3, Text: t.Title},
			document.Rows(brief, 1, streamColumns(), t.cases, nil))
	}
	return append(blocks, document.Note(streamsNote))
}

// strip returns a character for each second.
func (l *caseLine) strip() string {
	var b strings.Builder
	for i := range l.Traffic.Seconds {
		switch s := &l.Traffic.Seconds[i]; {
		case s.Lost() == 0:
			b.WriteByte('.')
		case s.Outcomes[sample.Response] > 0:
			b.WriteByte('o')
		default:
			b.WriteByte('#')
		}
	}
	return b.String()
}

func marksText(c *sample.Case) string {
	var texts []string
	for _, m := range c.Marks {
		texts = append(texts, fmt.Sprintf("%s at %s", m.Text, seconds(m.At)))
	}
	if len(texts) == 0 {
		return ""
	}
	return "Events: " + strings.Join(texts, ", ") + "."
}

func (a *Report) caseProblems() (all []string) {
	if a.Events == nil {
		return nil
	}
	for i := range a.Events.Cases {
		c := &a.Events.Cases[i]
		if c.Absent != "" {
			all = append(all, fmt.Sprintf("LEFT OUT: %s: %s", c.Title, c.Absent))
		}
		if s := c.Streams; s != nil && s.Opened < s.Clients && s.Phase("") != nil {
			all = append(all, fmt.Sprintf("%s: %d of %d streams (%s) were opened: %s", c.Title, s.Opened, s.Clients, s.Kind,
				s.Failure))
		}
		if why := c.Disturbance(a.Events.Timeout); why != "" {
			all = append(all, c.Title+": "+why+". What was lost may not be the server's fault.")
		}
	}
	return all
}

func seconds(d time.Duration) string { return fixed(1, d.Seconds()) + " s" }

func wholeMillis(d time.Duration) string { return fixed(0, ms(d)) + " ms" }

func megabytes(bytes int64) string { return fixed(0, float64(bytes)/1e6) + " MB" }

package report

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/document"
	loadreport "github.com/tarehq/tare/load/report"
)

//go:embed page.css
var styles string

func (a *Report) page() string { return a.document().Page(styles) }

// Text returns the whole report for a terminal.
func (a *Report) Text() string { return a.document().Text(document.Form{}) }

func (a *Report) document() *document.Document {
	d := &document.Document{Title: a.Title, Question: a.Question}
	d.Add(document.Paragraph{Class: "verdict", Text: a.Verdict()})
	if len(a.Targets) > 0 {
		d.Add(document.Heading{Level: 2, Text: "Targets", ID: "targets"}, a.targetTable(), document.Note(fmt.Sprintf(
			"Figures are medians of the starts. A ratio compares each slice of the contender with the reference's slice of the same round; latencies, memory and counts are compared start by start. A target is met if the whole %s interval is within the limit, and missed if it is beyond.",
			confidence())))
	}
	a.addEvents(d)
	if len(a.Tables) > 0 {
		d.Add(a.weights(0))
		a.addShares(d)
	}
	d.Add(document.Lines(a.Problems()), document.Note(strings.Join(a.Remarks(), " ")), a.contents())
	for i := range a.Tables {
		a.addTable(d, i)
	}
	if a.Events == nil {
		a.addEntrants(d)
		if !a.HasPrograms {
			a.addResponses(d)
		}
	}
	a.addMethod(d)
	return d
}

func sectionID(i int) string { return fmt.Sprintf("condition-%d", i+1) }

func (a *Report) contents() (links document.Links) {
	const few = 2
	if len(a.Tables) <= few {
		return nil
	}
	for i := range a.Tables {
		links = append(links, [2]string{sectionID(i), "With " + a.Tables[i].Text()})
	}
	return append(links, [2]string{"who", "Contenders"}, [2]string{"equal", "Responses compared"},
		[2]string{"method", "How this was measured"})
}

func (a *Report) weights(i int) document.Block {
	t := &a.Tables[i]
	return document.Chart{Drawing: t.weightChart(), Caption: fmt.Sprintf(
		"CPU time of all server processes, divided by their responses, with %s. Bars are medians of %s; a line is the %s interval of the ratio to the control, in proportion to the bar.",
		t.Text(), loadreport.Plural(a.Blocks, "block"), confidence())}
}

// addTable adds the part about one condition. The first one has the notes that concern all.
func (a *Report) addTable(d *document.Document, i int) {
	t, isFirst := &a.Tables[i], i == 0
	d.Add(document.Heading{Level: 2, Text: "With " + t.Text(), ID: sectionID(i)})
	if isFirst {
		d.Add(document.Note(t.VariationNote() + " On loopback the kernel charges some of the receiver's work to the sender, so compare whole bars, not their parts."))
	} else {
		d.Add(a.weights(i))
	}
	details := func(summary string, shown document.Block, note string) {
		blocks := []document.Block{shown}
		if isFirst {
			blocks = append(blocks, document.Note(note))
		}
		d.Add(document.Details{Summary: summary, Open: isFirst, Blocks: blocks})
	}
	details("All figures", document.Rows(false, 1, a.resultColumns(), t.lines(),
		func(l rowLine) string { return string(l.Kind) }),
		"Times are ratios to the control's CPU time. Switches are context switches per request: the process waited, or the scheduler preempted it.")
	d.Add(document.Paragraph{Text: t.ScenarioNote()})
	t.addBuilds(d)
	t.addPairs(d)
	latency := document.Chart{Title: "Latency", Drawing: a.latencyPlot(t)}
	if !slices.ContainsFunc(a.Tables[:i], func(o Table) bool { return o.Saturated() == t.Saturated() }) {
		latency.Caption = t.LatencyNote()
	}
	d.Add(latency, document.Warnings(t.warnings()))
	if len(t.Decompositions) > 0 {
		details("Differences by part, in µs of CPU time", t.decompositions(), fmt.Sprintf(
			"Each figure is the median of the blocks' differences; the page has the %s interval of each. Parts and residual add up to the total. There is a residual because medians of parts need not add up to the median of sums.",
			confidence()))
	}
	if names := t.CallNames(); len(names) > 0 {
		details("System calls per request", t.calls(names),
			"The kernel counted them in a separate trial after the timed ones, because counting costs time. They stand beside the times and do not explain them: the cost of a call was not measured.")
	}
	d.Add(document.Warnings(t.Missing))
}

func (a *Report) addShares(d *document.Document) {
	rows := a.sharers()
	if len(rows) == 0 {
		return
	}
	t := document.NewTable(1, []string{"", "share of a core", "times"}, nil)
	t.Class = "few"
	for _, row := range rows {
		t.Add(string(row.Kind), row.Title, percentOfCore(row.WeightUs.Mid), ratioText(row))
	}
	d.Add(document.Heading{Level: 2, Text: "What this means for 1,000 requests/s", ID: "shares"}, t, document.Note(
		"From the CPU time of all server processes with "+rows[0].Condition.Text()+". The fewer requests a server finds at once, the more CPU time each needs, because the server wakes more often."))
}

func (a *Report) addMethod(d *document.Document) {
	e := &a.Environment
	trials := ""
	switch {
	case a.Events != nil:
		trials = fmt.Sprintf("one case after another, %v each, with fresh processes on all processors", a.Measure)
	case a.HasPrograms:
		trials = fmt.Sprintf("each program ran in a process of its own, for %v, once in each of %s, in random order",
			a.Measure, loadreport.Plural(a.Blocks, "block"))
	default:
		trials = fmt.Sprintf("%s; each starts all contenders, warms them up for %v, and loads them in turns, in random order, in slices that add up to %v for each",
			loadreport.Plural(a.Blocks, "block"), a.Warmup, a.Measure)
		if a.RateMeasure > 0 {
			trials += fmt.Sprintf(" (%v at a fixed rate)", a.RateMeasure)
		}
	}
	took := time.Duration(a.Seconds * float64(time.Second)).Round(time.Second)
	terms := [][2]string{{"command", a.Command()},
		{"when", fmt.Sprintf("%s, for %v", a.Started.Format("2006-01-02 15:04:05 MST"), took)}, {"trials", trials}}
	if a.Events != nil {
		for i := range a.Events.Cases {
			terms = append(terms, [2]string{a.Events.Cases[i].Title, strings.Join(a.Events.Cases[i].Versions, ", ")})
		}
	}
	terms = append(terms, [][2]string{{"repeats", a.Source}, {"tare", a.Tool},
		{"machine", fmt.Sprintf("%s, %d processors, %.1f GB of memory", e.CPU, e.Cores, float64(e.Memory)/1e9)},
		{"processors", a.Placement}, {"system", e.System + ", " + e.Kernel},
		{"open files", fmt.Sprintf("at most %d per process", e.Nofile)}}...)
	var kernel [][2]string
	for _, name := range slices.Sorted(maps.Keys(e.Sysctls)) {
		kernel = append(kernel, [2]string{name, e.Sysctls[name]})
	}
	d.Add(document.Heading{Level: 2, Text: "How this was measured", ID: "method"}, document.Terms{Pairs: terms},
		document.Details{Summary: "Kernel settings during this run",
			Blocks: []document.Block{document.Terms{Codes: true, Pairs: kernel}}})
}

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

func differenceSentence(d *analyze.Decomposition) string {
	more, by := "more", d.TotalUs.Mid
	if by < 0 {
		more, by = "less", -by
	}
	chance := ""
	if d.TotalUs.Known() && d.TotalUs.Contains(0) {
		chance = ", which may be chance"
	}
	return fmt.Sprintf("%s costs %s %s than %s%s: %s", d.Of.Title, micros(by), more, d.Than.Title, chance,
		strings.Join(partTexts(d), ", "))
}

// partTexts returns the parts with their signs. User and system time of a role that only one of the
// two has are added up. A negligible residual is left out.
func partTexts(d *analyze.Decomposition) (words []string) {
	for i := 0; i < len(d.Parts); i++ {
		p := &d.Parts[i]
		if p.OneSided {
			words = append(words, p.Role+" "+signed(p.Us.Mid+d.Parts[i+1].Us.Mid)) // sys follows user
			i++
			continue
		}
		words = append(words, p.Name+" "+signed(p.Us.Mid))
	}
	if math.Abs(d.ResidualUs) >= 0.05 {
		words = append(words, "residual "+signed(d.ResidualUs))
	}
	return words
}

const listedCalls = 6

func callList(d *analyze.Decomposition) string {
	var words []string
	for _, c := range d.Calls[:min(listedCalls, len(d.Calls))] {
		words = append(words, fmt.Sprintf("%s %s %s", c.Role, c.Name, signed(c.PerRequest)))
	}
	return strings.Join(words, ", ")
}

func signed(v float64) string {
	text := fmt.Sprintf("%.1f", math.Abs(v))
	switch {
	case text == "0.0":
		return "±0"
	case v < 0:
		return "−" + text
	}
	return "+" + text
}

// decompositions returns the differences by part. In a text they are sentences.
func (t *Table) decompositions() []document.Block {
	var said []string
	names := t.PartNames()
	shown := document.NewTable(1, slices.Concat([]string{"", "than", "total, µs"}, names,
		[]string{"residual", "system calls per request"}), nil)
	for i := range shown.Heads {
		shown.Heads[i].Class = "narrowed"
	}
	shown.Heads[0].Class, shown.Heads[1].Class, shown.Heads[len(shown.Heads)-1].Class = "", "wrap", "wrap calls"
	us := func(i stat.Interval) document.Cell {
		c := document.Cell{Text: signed(i.Mid)}
		if i.Known() {
			c.Small = signed(i.Lo) + " to " + signed(i.Hi)
		}
		return c
	}
	for i := range t.Decompositions {
		d := &t.Decompositions[i]
		title, sentence, calls := d.Of.Title, differenceSentence(d)+".", callList(d)
		if d.What != "" {
			title, sentence = d.What+":\n"+title, upper(d.What)+": "+sentence
		}
		if calls != "" {
			sentence += " Calls: " + calls + "."
		}
		said = append(said, sentence)
		line := document.TableLine{Class: string(d.Of.Kind),
			Cells: []document.Cell{{Text: title}, {Text: d.Than.Title}, us(d.TotalUs)}}
		for _, name := range names {
			cell := document.Cell{}
			if p := d.Part(name); p != nil {
				cell = us(p.Us)
			}
			line.Cells = append(line.Cells, cell)
		}
		line.Cells = append(line.Cells, document.Cell{Text: signed(d.ResidualUs)}, document.Cell{Small: calls})
		shown.Lines = append(shown.Lines, line)
	}
	return []document.Block{inText(document.Heading{Level: 3,
		Text: "Differences by part, in µs of CPU time and in system calls per request"}, document.Items{Texts: said}),
		onPage(shown, document.Note(fmt.Sprintf(
			"Each figure is the median of the blocks' differences, with its %s interval. Parts and residual add up to the total. There is a residual because medians of parts need not add up to the median of sums. System calls are listed beside the times but do not explain them: the cost of a call was not measured.",
			confidence())))}
}

func pairSentence(p *analyze.Pair) string {
	switch p.Ratio.Finding() {
	case stat.Less:
		return p.What + " saves " + micros(-p.ExtraUs.Mid)
	case stat.More:
		return p.What + " costs " + micros(p.ExtraUs.Mid)
	case stat.Same:
		return p.What + " makes no difference"
	}
	return "the cost of " + p.What + " is unclear in this run"
}

func (t *Table) addPairs(d *document.Document) {
	if len(t.Pairs) == 0 {
		return
	}
	shown := document.NewTable(1, []string{"part", "µs more", confidence() + "\ninterval", "times",
		confidence() + "\ninterval", "finding", "application\nalone, times", confidence() + "\ninterval", "compared"}, nil)
	for i := range t.Pairs {
		p := &t.Pairs[i]
		finding := p.Ratio.Finding().String()
		shown.Add("", p.What, fixed(2, p.ExtraUs.Mid), intervalText(p.ExtraUs), times(p.Ratio.Mid), intervalText(p.Ratio),
			finding, times(p.AppRatio.Mid), intervalText(p.AppRatio), p.Of.Title+" with "+p.Than.Title)
		shown.Lines[i].Cells[5].Class = finding
	}
	shown.Heads[0].Class, shown.Heads[8].Class = "wrap", "wrap"
	d.Add(document.Heading{Level: 3, Text: "Cost of the parts"}, shown, document.Note(
		"Each line compares two contenders that differ in one part, by slices. The cost of a part is the CPU time of all processes; the application alone is without the front."))
}

// perCall formats a count for a table. Negligible counts are "".
func perCall(n float64) string {
	if n < 0.005 {
		return ""
	}
	return fixed(2, n)
}

// heat returns the CSS class of a cell: the higher the count, the darker.
func heat(n float64) string {
	level := 0
	for _, from := range []float64{analyze.LeastCalls, 0.5, 1.5, 3, 6} {
		if n >= from {
			level++
		}
	}
	return fmt.Sprintf("heat-%d", level)
}

func (t *Table) usage() []document.Block {
	names := t.CallNames()
	calls := document.NewTable(2, append([]string{"system calls", "role"}, names...), nil)
	calls.Heads = append(calls.Heads, document.Head{Text: "all calls"})
	rest := document.NewTable(2, []string{"", "role", "user, µs", "system, µs", "switches\nwaiting", "switches\nforced",
		"page faults\nminor", "page faults\nmajor"}, nil)
	for _, row := range t.Measured() {
		if row.Kind == sample.Twin {
			continue
		}
		for _, p := range slices.Concat(row.Parts, row.Loading) {
			rest.Add(string(row.Kind), row.Title, p.Role, fixed(2, p.UserUs), fixed(2, p.SysUs), fixed(3, p.Voluntary),
				fixed(3, p.Involuntary), fixed(3, p.MinorFaults), fixed(3, p.MajorFaults))
			if p.Calls == nil {
				continue
			}
			calls.Add(string(row.Kind), row.Title, p.Role)
			line := &calls.Lines[len(calls.Lines)-1]
			for _, name := range names {
				line.Cells = append(line.Cells, document.Cell{Text: perCall(p.Calls[name]), Class: heat(p.Calls[name])})
			}
			line.Cells = append(line.Cells, document.Cell{Text: fixed(2, p.AllCalls())})
		}
	}
	var blocks []document.Block
	if len(names) > 0 {
		blocks = append(blocks, document.Heading{Level: 4, Text: "System calls"}, calls)
	}
	blocks = append(blocks, document.Heading{Level: 4, Text: "CPU time, switches and page faults"}, rest, document.Note(
		"All figures are per request. CPU time, switches and page faults are medians of the timed trials; a major fault reads a page from disk. The kernel counted system calls in a separate trial after the timed ones, because counting costs time. The generator's part includes all of tare."))
	return []document.Block{onPage(blocks...), document.Warnings(t.Missing)}
}

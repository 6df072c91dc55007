package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
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

// callList returns the system calls that differ most.
func callList(d *analyze.Decomposition) string {
	var words []string
	for _, c := range d.Calls[:min(listedCalls, len(d.Calls))] {
		words = append(words, fmt.Sprintf("%s %s %s", c.Role, c.Name, signed(c.PerRequest)))
	}
	return strings.Join(words, ", ")
}

// signed formats a number with its sign and one decimal.
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

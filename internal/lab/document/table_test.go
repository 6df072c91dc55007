package document_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

type line struct {
	name string
	cost stat.Interval
}

func columns() []document.Column[line] {
	cost := document.Interval("us", func(l line) stat.Interval { return l.cost })
	cost[0] = cost[0].For("µs\nper request", func(line) string { return "some" }).InBrief()
	return slices.Concat([]document.Column[line]{
		document.Text("contender", func(l line) string { return l.name }).
			For("", func(l line) string { return l.name }).InBrief(),
		document.Column[line]{}.For("length",
			func(l line) string { return strings.Repeat("x", len(l.name)) }),
	}, cost)
}

// CSV has the columns with a name, and no cell where there is no number.
func TestCSVHasNamedColumns(t *testing.T) {
	lines := []line{
		{"a, b", stat.Interval{Lo: 1, Mid: 2.5, Hi: 3}},
		{"c", stat.Interval{Lo: math.Inf(-1), Mid: math.NaN(), Hi: math.Inf(1)}},
	}
	testkit.Equal(t, document.CSV(columns(), lines), "contender,us,us_lo,us_hi\n\"a, b\",2.5,1,3\nc,,,\n")
}

// The first screen has fewer columns than the other outputs for people.
func TestFirstScreenHasFewColumns(t *testing.T) {
	for brief, want := range map[bool]string{
		true: "       µs per request\n  abc            some\n\n", false: "       length  µs per request\n  abc     xxx            some\n\n",
	} {
		d := new(document.Document)
		d.Add(document.Rows(brief, 1, columns(), []line{{name: "abc"}}, nil))
		testkit.Equal(t, d.Text(document.Form{}), want, "brief:", brief)
	}
}

func TestDocumentsAreForTerminalsOrMarkdown(t *testing.T) {
	line := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for markdown, want := range map[bool]string{
		false: "Costs\n\n          µs\n  a|ä  12.50\n  b\n\n  one\n  " + line(19) +
			"\n    " + line(11) + "\n\nMore\n\n  .o#\n\n",
		true: "# A\n\nWhy?\n\n## Costs\n\n|  | µs |\n|---|--:|\n| a\\|ä | 12.50 |\n| b |  |\n\n- one\n- " +
			line(19) + "\n  " + line(11) + "\n\n### More\n\n  .o#\n\n",
	} {
		d := &document.Document{Title: "A", Question: "Why?"}
		d.Add(document.Heading{Level: 2, Text: "Costs"}, document.Paragraph{},
			document.NewTable(1, []string{"", "µs"}, [][]string{{"a|ä", "12.50"}, {"b", ""}}), document.Items{},
			document.Items{Texts: []string{"one", line(30)}},
			document.Chart{}, document.Details{Summary: "More", Blocks: []document.Block{document.Chart{Text: ".o#"}}})
		testkit.Equal(t, d.Text(document.Form{Markdown: markdown}), want, "markdown", markdown)
	}
}

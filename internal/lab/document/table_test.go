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
	cost[0] = cost[0].For(document.Brief|document.Page, "µs\nper request", func(line) string { return "some" })
	return slices.Concat([]document.Column[line]{
		document.Text("contender", func(l line) string { return l.name }).
			For(document.Brief|document.Terminal|document.Page, "", func(l line) string { return l.name }),
		document.Column[line]{}.For(document.Terminal, "length",
			func(l line) string { return strings.Repeat("x", len(l.name)) }),
	}, cost)
}

// CSV has the columns with a name, and no cell where there is no number.
func TestCSVHasNamedColumns(t *testing.T) {
	var b strings.Builder
	lines := []line{
		{"a, b", stat.Interval{Lo: 1, Mid: 2.5, Hi: 3}},
		{"c", stat.Interval{Lo: math.Inf(-1), Mid: math.NaN(), Hi: math.Inf(1)}},
	}
	testkit.Must(t, document.WriteCSV(&b, columns(), lines))
	testkit.Equal(t, b.String(), "contender,us,us_lo,us_hi\n\"a, b\",2.5,1,3\nc,,,\n")
}

// Each output for people has its own columns.
func TestOutputsHaveTheirColumns(t *testing.T) {
	for in, want := range map[document.Outputs]string{
		document.Brief: "|µs\nper request; abc|some", document.Terminal: "|length; abc|xxx",
		document.Page: "|µs\nper request; abc|some",
	} {
		heads, cells := document.Rows(1, columns(), []line{{name: "abc"}}, nil).For(in)
		got := strings.Join(heads, "|") + "; " + strings.Join(cells[0], "|")
		testkit.Equal(t, got, want, in)
	}
}

func TestDocumentsAreForTerminalsOrMarkdown(t *testing.T) {
	line := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for markdown, want := range map[bool]string{
		false: "Costs\n\n          µs\n  a|ä  12.50\n  b\n\n  one\n  " + line(19) +
			"\n    " + line(11) + "\n\n",
		true: "# A\n\nWhy?\n\n## Costs\n\n|  | µs |\n|---|--:|\n| a\\|ä | 12.50 |\n| b |  |\n\n- one\n- " +
			line(19) + "\n  " + line(11) + "\n\n",
	} {
		d := &document.Document{Title: "A", Question: "Why?"}
		d.Add(document.Heading{Level: 2, Text: "Costs"}, document.Paragraph{},
			document.NewTable(1, []string{"", "µs"}, [][]string{{"a|ä", "12.50"}, {"b"}}), document.Items{},
			document.Items{Texts: []string{"one", line(30)}},
			document.Only{In: document.Page, Blocks: []document.Block{document.Lines{"hidden"}}})
		testkit.Equal(t, d.Text(document.Form{Out: document.Terminal, Markdown: markdown}), want, "markdown", markdown)
	}
}

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

// manyRequests is a rate that readers can multiply.
const manyRequests = 1000

// sharesTable returns the table whose costs are nearest to those of a moderate rate: at a fixed
// rate a contender finds less work at once than at saturation. It returns nil if nothing was
// measured.
func (a *Report) sharesTable() *Table {
	if len(a.Tables) == 0 || a.Tables[0].Row(sample.Control) == nil {
		return nil
	}
	first := &a.Tables[0]
	for i := range a.Tables {
		t := &a.Tables[i]
		if !t.Saturated() && t.Scenario == first.Scenario && t.Cores == first.Cores && len(t.Measured()) > 0 {
			return t
		}
	}
	return first
}

// sharers returns the contenders of whose costs the report says what they mean, and under which
// condition they were measured.
func (a *Report) sharers() (rows []*analyze.Row, condition string) {
	t := a.sharesTable()
	if t == nil {
		return nil, ""
	}
	rows = slices.DeleteFunc(t.Measured(), func(row *analyze.Row) bool {
		return isAside(row.Kind) || !(row.WeightUs.Mid > 0)
	})
	return rows, t.Text()
}

// percentOfCore returns the share of a core that manyRequests per second of a cost use.
func percentOfCore(us float64) string {
	percent, digits := 100*manyRequests*us/1e6, 2
	switch {
	case percent >= 10:
		digits = 0
	case percent >= 1:
		digits = 1
	}
	return fixed(digits, percent) + " %"
}

// fewShares is the number of contenders that a sentence names. Of more it names three.
const fewShares = 8

// Shares returns what the costs mean, in a sentence. Of many contenders it names the control, the
// cheapest and the most expensive.
func (a *Report) Shares() string {
	rows, _ := a.sharers()
	if len(rows) == 0 {
		return ""
	}
	where := ""
	if t := a.sharesTable(); !t.Saturated() {
		where = fmt.Sprintf("Measured at %s requests/s, where servers wait between requests, ", loadreport.Count(t.Rate))
	}
	if len(rows) > fewShares {
		byCost := func(x, y *analyze.Row) int { return cmp.Compare(x.WeightUs.Mid, y.WeightUs.Mid) }
		least, most := slices.MinFunc(rows, byCost), slices.MaxFunc(rows, byCost)
		rows = slices.DeleteFunc(rows, func(r *analyze.Row) bool {
			return r.Kind != sample.Control && r != least && r != most
		})
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = row.Title + " " + percentOfCore(row.WeightUs.Mid)
	}
	return fmt.Sprintf("%s1,000 requests/s use this share of a core: %s.", where, strings.Join(texts, ", "))
}

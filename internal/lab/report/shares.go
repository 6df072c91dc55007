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

// sharers returns the contenders of whose costs the report says what they mean. Costs at a fixed rate
// are preferred: a contender finds less work at once than at saturation, as at a moderate rate.
func (a *Report) sharers() []*analyze.Row {
	if len(a.Tables) == 0 || a.Tables[0].Row(sample.Control) == nil {
		return nil
	}
	t := &a.Tables[0]
	if at := slices.IndexFunc(a.Tables, func(o Table) bool {
		return !o.Saturated() && o.Scenario == t.Scenario && o.Cores == t.Cores && len(o.Measured()) > 0
	}); at >= 0 {
		t = &a.Tables[at]
	}
	return slices.DeleteFunc(t.Measured(), func(row *analyze.Row) bool {
		return isAside(row.Kind) || !(row.WeightUs.Mid > 0)
	})
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
	rows := a.sharers()
	if len(rows) == 0 {
		return ""
	}
	where := ""
	if c := rows[0].Condition; !c.Saturated() {
		where = fmt.Sprintf("Measured at %s requests/s, where servers wait between requests, ", loadreport.Count(c.Rate))
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

package report

import (
	"fmt"
	"slices"
)

// shape compares the published rates with the measured ones, each relative to its control. Rates
// themselves depend too much on machine and year.
type shape struct {
	columns   []string // the published groups, then the run's conditions at saturation
	published int      // number of published groups among the columns
	rows      []shapeRow
}

// shapeRow has one contender's rates relative to the control's.
type shapeRow struct {
	title  string
	about  string
	ratios []float64 // one for each column; 0 if unknown
}

// shape returns the published and the measured shape.
func (a *Report) shape() shape {
	var s shape
	var groups []string
	for _, p := range a.Published {
		if !slices.Contains(groups, p.Group) {
			groups = append(groups, p.Group)
		}
	}
	for _, g := range groups {
		s.columns = append(s.columns, "published: "+g)
	}
	s.published = len(groups)
	tables := slices.DeleteFunc(slices.Clone(a.Tables), func(t Table) bool { return !t.Saturated() })
	for i := range tables {
		t := &tables[i]
		s.columns = append(s.columns, fmt.Sprintf("here: %s, %d conns", coresText(t), t.Connections))
	}
	for i := range a.Entrants {
		e := &a.Entrants[i]
		row := shapeRow{title: e.Title, about: described(e)}
		for _, g := range groups {
			row.ratios = append(row.ratios, a.publishedRatio(g, e.Name))
		}
		if !slices.ContainsFunc(row.ratios, func(v float64) bool { return v > 0 }) {
			continue
		}
		for j := range tables {
			v := 0.0
			if r := tables[j].Named(e.Name); r != nil && r.Trials > 0 {
				v = finite(r.RateRatio.Mid)
			}
			row.ratios = append(row.ratios, v)
		}
		s.rows = append(s.rows, row)
	}
	return s
}

func coresText(t *Table) string {
	switch t.Cores {
	case 0:
		return "all cores"
	case 1:
		return "1 core"
	}
	return fmt.Sprintf("%d cores", t.Cores)
}

func (a *Report) publishedRatio(group, contender string) float64 {
	for _, p := range a.Published {
		if p.Group == group && p.Contender == contender {
			return p.Ratio
		}
	}
	return 0
}

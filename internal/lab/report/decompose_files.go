package report

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Names of the files of differences and of counts.
const (
	differencesFile = "differences.csv"
	countsFile      = "counts.csv"
)

// csvNumber formats a number, or returns "" if there is none.
func csvNumber(v float64) string {
	if v != finite(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// writeDifferences writes the parts of all decompositions, one per line. Those of a decomposition
// add up to its total.
func (a *Analysis) writeDifferences(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"experiment"}, conditionColumns(),
		[]string{"of", "than", "what", "part", "us", "us_lo", "us_hi"})) // the writer keeps its first error
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Decompositions {
			d := &t.Decompositions[j]
			line := func(part string, us ...float64) {
				cells := slices.Concat([]string{a.Experiment}, conditionCells(t.Condition),
					[]string{d.Of.Name, d.Than.Name, d.What, part})
				for _, v := range us {
					cells = append(cells, csvNumber(v))
				}
				_ = out.Write(append(cells, make([]string, 3-len(us))...))
			}
			line("total", d.TotalUs.Mid, d.TotalUs.Lo, d.TotalUs.Hi)
			for k := range d.Parts {
				p := &d.Parts[k]
				line(p.Name(), p.Us.Mid, p.Us.Lo, p.Us.Hi)
			}
			line("residual", d.ResidualUs)
		}
	}
	out.Flush()
	return out.Error()
}

// writeCounts writes the resources that requests use, one number per line.
func (a *Analysis) writeCounts(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"experiment"}, conditionColumns(),
		[]string{"contender", "where", "what", "per_request"}))
	for i := range a.Tables {
		t := &a.Tables[i]
		line := func(row *Row, where, what string, v float64) {
			_ = out.Write(slices.Concat([]string{a.Experiment}, conditionCells(t.Condition),
				[]string{row.Name, where, what, csvNumber(v)}))
		}
		for j := range t.Usage.Rows {
			r := &t.Usage.Rows[j]
			line(r.Row, r.Role, "user_us", r.UserUs)
			line(r.Row, r.Role, "sys_us", r.SysUs)
			line(r.Row, r.Role, "voluntary_switches", r.Voluntary)
			line(r.Row, r.Role, "involuntary_switches", r.Involuntary)
			line(r.Row, r.Role, "minor_faults", r.MinorFaults)
			line(r.Row, r.Role, "major_faults", r.MajorFaults)
			for _, name := range slices.Sorted(maps.Keys(r.Calls)) {
				line(r.Row, r.Role, "call "+name, r.Calls[name])
			}
		}
		for j := range t.Usage.Hops {
			h := &t.Usage.Hops[j]
			where := "hop " + h.HopName() + " by " + h.Network
			line(h.Row, where, "connections", h.Opened)
			line(h.Row, where, "segments_to", h.ToSegments)
			line(h.Row, where, "segments_from", h.FromSegments)
			line(h.Row, where, "bytes_to", h.ToBytes)
			line(h.Row, where, "bytes_from", h.FromBytes)
		}
	}
	out.Flush()
	return out.Error()
}

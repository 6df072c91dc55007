package report

import (
	"io"
	"maps"
	"slices"

	"github.com/tarehq/tare/internal/lab/document"
)

// Names of the files about parts.
const (
	differencesFile = "differences.csv"
	countsFile      = "counts.csv"
	pairsFile       = "pairs.csv"
)

// writeDifferences writes the parts of all decompositions, one per line. Those of a decomposition
// add up to its total.
func (a *Report) writeDifferences(w io.Writer) error {
	var lines document.CSV
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Decompositions {
			d := &t.Decompositions[j]
			add := func(part string, us ...any) {
				lines.Add(append(a.leading(t, d.Of.Name, d.Than.Name, d.What, part), us...)...)
			}
			add("total", d.TotalUs)
			for k := range d.Parts {
				add(d.Parts[k].Name(), d.Parts[k].Us)
			}
			add("residual", d.ResidualUs, "", "")
		}
	}
	return lines.Write(w, leadingHeads+"of than what part us us_lo us_hi")
}

// writeCounts writes the resources that requests use, one number per line.
func (a *Report) writeCounts(w io.Writer) error {
	var lines document.CSV
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Usage.Rows {
			r := &t.Usage.Rows[j]
			add := func(what string, v float64) { lines.Add(a.leading(t, r.Name, r.Role, what, v)...) }
			add("user_us", r.UserUs)
			add("sys_us", r.SysUs)
			add("voluntary_switches", r.Voluntary)
			add("involuntary_switches", r.Involuntary)
			add("minor_faults", r.MinorFaults)
			add("major_faults", r.MajorFaults)
			for _, name := range slices.Sorted(maps.Keys(r.Calls)) {
				add("call "+name, r.Calls[name])
			}
		}
	}
	return lines.Write(w, leadingHeads+"contender where what per_request")
}

// writePairs writes the costs of parts, one per line.
func (a *Report) writePairs(w io.Writer) error {
	var lines document.CSV
	for i := range a.Tables {
		for j := range a.Tables[i].Pairs {
			p := &a.Tables[i].Pairs[j]
			lines.Add(a.leading(&a.Tables[i], p.What, p.Of.Name, p.Than.Name, p.ExtraUs, p.Ratio, p.Finding,
				p.AppRatio)...)
		}
	}
	return lines.Write(w, leadingHeads+"what of than extra_us extra_us_lo extra_us_hi ratio ratio_lo ratio_hi finding application_ratio application_ratio_lo application_ratio_hi")
}

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/lab/table"
)

// KernelSummary summarizes the comparison of kernel settings. It returns "" if the write-up has
// none.
func (a *Report) KernelSummary() string {
	if len(a.Kernel) == 0 {
		return ""
	}
	wanted := 0
	for i := range a.Kernel {
		if a.Kernel[i].Want != "" {
			wanted++
		}
	}
	summary := fmt.Sprintf("kernel settings: %s of the write-up's %d may affect this run", noneOr(wanted),
		len(a.Kernel))
	if len(a.Tuned) > 0 {
		summary += ", and were changed for its duration"
	}
	return summary
}

func noneOr(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

// TunedValue returns the value of a setting during the run, or "" if it was not changed.
func (a *Report) TunedValue(name string) string {
	i := slices.IndexFunc(a.Tuned, func(c kernel.Change) bool { return c.Name == name })
	if i < 0 {
		return ""
	}
	return a.Tuned[i].To
}

// writeKernel writes which kernel limits were reached, and which settings matter
// and differ from the write-up's. Settings that were changed for the run are in a note.
func (a *Report) writeKernel(d *table.Document) {
	var differing []string
	for i := range a.Kernel {
		if row := &a.Kernel[i]; row.Want != "" && a.TunedValue(row.Name) == "" {
			differing = append(differing, fmt.Sprintf("%s %s (write-up: %s)", row.Name, row.Here, row.Theirs))
		}
	}
	d.Paragraph(strings.Join(a.Reached, " "))
	if len(differing) > 0 {
		d.Paragraph("Kernel settings that differ from the write-up's and may matter: " +
			strings.Join(differing, ", ") + ". The option tune changes them for a run.")
	}
}

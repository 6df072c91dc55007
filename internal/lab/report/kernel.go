package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/kernel"
)

// KernelSummary summarizes the comparison of kernel settings. It returns "" if the write-up has
// none.
func (r *Run) KernelSummary() string {
	if len(r.Kernel) == 0 {
		return ""
	}
	wanted := 0
	for i := range r.Kernel {
		if r.Kernel[i].Want != "" {
			wanted++
		}
	}
	summary := fmt.Sprintf("kernel settings: %s of the write-up's %d may affect this run", noneOr(wanted),
		len(r.Kernel))
	if len(r.Tuned) > 0 {
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
func (r *Run) TunedValue(name string) string {
	i := slices.IndexFunc(r.Tuned, func(c kernel.Change) bool { return c.Name == name })
	if i < 0 {
		return ""
	}
	return r.Tuned[i].To
}

// writeKernel writes, for a terminal, which kernel limits were reached, and which settings matter
// and differ from the write-up's. Settings that were changed for the run are in a note.
func (r *Run) writeKernel(b *strings.Builder) {
	var differing []string
	for i := range r.Kernel {
		if row := &r.Kernel[i]; row.Want != "" && r.TunedValue(row.Name) == "" {
			differing = append(differing, fmt.Sprintf("%s %s (write-up: %s)", row.Name, row.Here, row.Theirs))
		}
	}
	if len(r.Reached) > 0 {
		fmt.Fprintf(b, "%s\n\n", wrap(strings.Join(r.Reached, " "), textWidth))
	}
	if len(differing) > 0 {
		fmt.Fprintf(b, "%s\n\n", wrap("Kernel settings that differ from the write-up's and may matter: "+
			strings.Join(differing, ", ")+". The option tune changes them for a run.", textWidth))
	}
}

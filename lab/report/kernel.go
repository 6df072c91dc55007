package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/lab/kernel"
)

// KernelSummary is what the comparison of kernel settings comes to, or "" if the write-up
// tells none.
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
	said := fmt.Sprintf("kernel settings: %s of the write-up's %d may make a difference to this run", noneOr(wanted), len(r.Kernel))
	if len(r.Tuned) > 0 {
		said += ", and were changed while it lasted"
	}
	return said
}

func noneOr(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

// TunedValue is the value that a setting had while the run lasted, or "" if it was left alone.
func (r *Run) TunedValue(name string) string {
	i := slices.IndexFunc(r.Tuned, func(c kernel.Change) bool { return c.Name == name })
	if i < 0 {
		return ""
	}
	return r.Tuned[i].To
}

// writeKernel says for a terminal which of the kernel's bounds were reached, and which
// settings were not the write-up's and matter. Those that were changed for the run stand in a note.
func (r *Run) writeKernel(b *strings.Builder) {
	var lacking []string
	for i := range r.Kernel {
		if row := &r.Kernel[i]; row.Want != "" && r.TunedValue(row.Name) == "" {
			lacking = append(lacking, fmt.Sprintf("%s %s (theirs %s)", row.Name, row.Here, row.Theirs))
		}
	}
	if len(r.Reached) > 0 {
		fmt.Fprintf(b, "%s\n\n", wrap(strings.Join(r.Reached, " "), textWidth))
	}
	if len(lacking) > 0 {
		fmt.Fprintf(b, "%s\n\n", wrap("Kernel settings that are not the write-up's and may matter: "+strings.Join(lacking, ", ")+". With --tune they are, for the run.", textWidth))
	}
}

package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/stat"
)

func intervalText(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", i.Lo, i.Hi)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1e3) }

// Problems returns what makes the run incomplete: contenders that were left out, and warnings about
// the whole run.
func (a *Report) Problems() (all []string) {
	for _, e := range a.Entrants {
		if e.Absent != "" {
			all = append(all, fmt.Sprintf("LEFT OUT: %s: %s", e.Title, e.Absent))
		}
	}
	for _, warning := range a.Run.Warnings {
		all = append(all, "WARNING: "+warning)
	}
	return slices.Concat(all, a.caseProblems(), a.failedRows())
}

package report

import (
	"fmt"
	"strings"
)

// KernelNote returns which limits of the kernel were reached, and which settings may matter and
// differ from the write-up's. Settings that were changed for the run are in a note.
func (a *Report) KernelNote() string {
	sentences := a.Reached
	if len(a.Kernel) > 0 && !a.Tuned {
		var differing []string
		for i := range a.Kernel {
			c := &a.Kernel[i]
			differing = append(differing, fmt.Sprintf("%s %s (write-up: %s)", c.Name, c.From, c.To))
		}
		sentences = append(sentences[:len(sentences):len(sentences)], fmt.Sprintf(
			"Kernel settings that differ from the write-up's and may matter: %s. The option tune changes them for a run.",
			strings.Join(differing, ", ")))
	}
	return strings.Join(sentences, " ")
}

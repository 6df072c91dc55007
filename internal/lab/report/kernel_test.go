package report

import (
	"testing"

	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Settings that differ and matter are shown, unless they were changed for the run.
func TestKernelSettingsThatMatterAreShown(t *testing.T) {
	run := &sample.Run{
		Kernel:  []kernel.Change{{Name: "net.a", From: "1", To: "2"}},
		Reached: []string{"In this run 3 were lost."},
	}
	const differing = "In this run 3 were lost. Kernel settings that differ from the write-up's and may matter: net.a 1 (write-up: 2). The option tune changes them for a run."
	if got := New(run).KernelNote(); got != differing {
		t.Errorf("got %q", got)
	}
	run.Tuned = true
	if got := New(run).KernelNote(); got != "In this run 3 were lost." {
		t.Errorf("tuned: got %q", got)
	}
	if got := New(new(sample.Run)).KernelNote(); got != "" {
		t.Errorf("without settings: got %q", got)
	}
}

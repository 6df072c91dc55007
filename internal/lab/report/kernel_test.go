package report

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
)

func kernelRun(tuned bool) *Report {
	run := &sample.Run{
		Kernel: []kernel.Comparison{
			{Name: "net.a", Theirs: "2", Here: "1", Want: "2", Does: "how many <a> there may be",
				Conclusion: "yes: there are many"},
			{Name: "net.b", Theirs: "2", Does: "what was", Conclusion: "no: it is no more"},
		},
		Reached: []string{"In this run 3 were lost."},
	}
	run.Environment.Sysctls = map[string]string{"net.a": "1"}
	if tuned {
		run.Tuned = []kernel.Change{{Name: "net.a", From: "1", To: "2"}}
	}
	return New(run)
}

func kernelText(a *Report) string {
	d := new(table.Document)
	a.writeKernel(d)
	return d.String()
}

// The terminal shows settings that differ and matter, unless they were changed for the run. The
// page shows all.
func TestKernelSettingsThatMatterAreShown(t *testing.T) {
	const differing = "In this run 3 were lost.\n\nKernel settings that differ from the write-up's and may matter: net.a 1 (write-up: 2). The option\ntune changes them for a run.\n\n"
	if got := kernelText(kernelRun(false)); got != differing {
		t.Errorf("got %q", got)
	}
	if got := kernelText(kernelRun(true)); got != "In this run 3 were lost.\n\n" {
		t.Errorf("tuned: got %q", got)
	}
	for tuned, want := range map[bool][]string{
		false: {"kernel settings: 1 of the write-up&#39;s 2 may affect this run</summary>",
			"<td>2</td><td>1</td><td class=\"wrap\">how many &lt;a&gt; there may be</td>", "<td>2</td><td>none</td>",
			"In this run 3 were lost."},
		true: {"may affect this run, and were changed for its duration</summary>", "<td>2</td><td>1</td><td>2</td>",
			"<td>2</td><td>none</td><td>none</td>"},
	} {
		var b strings.Builder
		if err := kernelRun(tuned).writePage(&b); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("tuned %v: the page has no %s", tuned, text)
			}
		}
	}
}

// Without kernel settings in the write-up there is no table.
func TestNoTableWithoutKernelSettings(t *testing.T) {
	var b strings.Builder
	a := New(&sample.Run{})
	if err := a.writePage(&b); err != nil || strings.Contains(b.String(), "<summary>kernel settings") ||
		kernelText(a) != "" {
		t.Error(err, kernelText(a))
	}
}

package lab_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Stacks of all contenders but the twin are sampled, or a note says why not.
func TestProfilesAreSampled(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	run, _, err := lab.Weigh(t.Context(), lab.Options{
		Root: programs.Root(t), Experiment: "hop", Only: []string{"tare"}, Profile: true,
		Out: filepath.Join(t.TempDir(), "hop"),
		Adjust: func(all *lab.Trials) {
			*all = lab.Trials{
				Blocks: 1, Measure: yamlfile.Duration(200 * time.Millisecond), Cores: []lab.Cores{0},
				Connections: []int{4},
			}
		},
		Logf: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.Join(run.Notes, " "), "Stacks were not sampled: perf events require root") {
		t.Skip(run.Notes)
	}
	if len(run.Profiles) != 2 || !run.Profiles[0].IsControl || run.Profiles[1].Contender != "tare" {
		t.Fatalf("%d profiles, notes %q", len(run.Profiles), run.Notes)
	}
	for i := range run.Profiles {
		p := &run.Profiles[i]
		known := 0 // samples whose functions are known, of the program and of the kernel
		for _, s := range p.Stacks {
			if n := len(s.Frames); n > 1 && s.Frames[0].Name != "" && s.Frames[n-1].Name != "" {
				known += s.Count
			}
		}
		if p.Samples() < 50 || p.Requests == 0 || known < p.Samples()/2 {
			t.Errorf("%s: %d samples, %d known, %d requests", p.Title, p.Samples(), known, p.Requests)
		}
	}
}

package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

func TestLabelsKeepTheirEnds(t *testing.T) {
	for _, test := range []struct {
		label string
		n     int
		want  string
	}{{"tare front", 10, "tare front"}, {"tare front → FastCGI (unix)", 20, "tare front…GI (unix)"}} {
		if got := cutMiddle(test.label, test.n); got != test.want || utf8.RuneCountInString(got) > test.n {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// The first screen has at most 24 lines of 80 columns, however many contenders and problems there
// are.
func TestFirstScreenFits(t *testing.T) {
	crowded := fixture()
	for i := range 30 {
		name := fmt.Sprint("way", i)
		crowded.Entrants = append(crowded.Entrants,
			sample.Entrant{Name: name, Title: "contender " + name, Kind: sample.Way})
		for block := range blocks {
			crowded.Records = append(crowded.Records,
				record(name, block+1, crowded.Conditions[0], 0, 10*(1+0.6*float64(i))))
		}
	}
	absent := fixture()
	for i := range 20 {
		absent.Entrants = append(absent.Entrants, sample.Entrant{Name: fmt.Sprint("absent", i), Title: "Absent",
			Kind: sample.Way, Absent: "build: exit status 1\n" + strings.Repeat("its output\n", 20)})
	}
	const logged = "no response after 10s: the front responds, but the application behind it does not; nginx printed: connect() to unix:/tmp/app.sock failed (13: Permission denied)"
	refused := fixture()
	for i := range 2 {
		refused.Entrants = append(refused.Entrants, sample.Entrant{Name: fmt.Sprint("refused", i), Title: "Refused",
			Kind: sample.Way, Absent: logged + strings.Repeat("\n    its output", 8)})
	}
	nothing := fixture()
	nothing.Records = nil
	builds := fixture()
	builds.Entrants[4].Kind = sample.Build
	for name, test := range map[string]struct {
		run  *sample.Run
		want []string
	}{
		"usual": {fixture(), []string{"With 64 connections and the servers on one core:", "  tare ", "0.65",
			"1,000 requests/s use this share of a core: net/http 1.4 %, nginx → net/http 3.1 %"}},
		"crowded": {crowded, []string{"more contenders are in the report."}},
		"absent":  {absent, []string{"LEFT OUT: Absent: build: exit status 1 ", "more problems are in the report."}},
		"refused": {refused, []string{"LEFT OUT: Refused: " + logged}},
		"nothing": {nothing, []string{"Nothing was measured."}},
		"builds":  {builds, []string{"CPU time per request      -35.0 % (-35.0 % to -35.0 %)"}},
	} {
		var b strings.Builder
		testkit.Must(t, New(test.run).WriteBrief(&b))
		text := b.String()
		if n := strings.Count(text, "\n") + callerLines; n > screenLines {
			t.Errorf("%s: %d lines:\n%s", name, n, text)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(line) - 1; n > screenWidth {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if strings.Contains(text, "(twin)") || strings.Contains(text, "ceiling  ") {
			t.Errorf("%s: the twin or the ceiling:\n%s", name, text)
		}
		for _, want := range test.want {
			testkit.Contains(t, strings.ReplaceAll(text, "\n", " "), want, name)
		}
	}
}

// From the third block on a table has early intervals. A run of as many blocks has none.
func TestEarlyTableHasIntervals(t *testing.T) {
	for blocks, known := range map[int]bool{2: false, 3: true, 8: true} {
		run := slicesRun(1.5, 0, never)
		run.Blocks = blocks
		run.Records = slices.DeleteFunc(run.Records, func(r sample.Record) bool { return r.Block > blocks })
		var early, brief strings.Builder
		testkit.Must(t, errors.Join(New(run).WriteEarly(&early), New(run).WriteBrief(&brief)))
		const interval = "–1.5"
		if !strings.HasPrefix(early.String(), fmt.Sprintf("After %d blocks, with 8 connections", blocks)) ||
			strings.Contains(early.String(), interval) != known ||
			strings.Contains(brief.String(), interval) != (blocks == 8) {
			t.Errorf("%d blocks:\n%s\n%s", blocks, early.String(), brief.String())
		}
	}
}

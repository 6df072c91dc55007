package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

func TestPairsOfMeasuredContendersAreCompared(t *testing.T) {
	run := fixture()
	run.Compare = []sample.Comparison{
		{What: "the proxy", Of: "nginx-nethttp", Than: "nethttp"}, {What: "our engine", Of: "tare", Than: "nethttp"},
		{What: "being the twin", Of: "twin", Than: "nethttp"},
		{What: "an absent part", Of: "absent", Than: "nethttp"},
	}
	a := New(run)
	all := a.Tables[0].Pairs
	if len(all) != 3 {
		t.Fatalf("%d comparisons, want those with both sides measured", len(all))
	}
	p := all[0]
	// The blocks drift from 1.1 to 1.6, so the median factor is that between the two in the middle.
	if extra := 13 * 1.35; math.Abs(p.ExtraUs.Mid-extra) > 0.01 {
		t.Errorf("the proxy costs %v µs more, want %v", p.ExtraUs.Mid, extra)
	}
	if math.Abs(p.Ratio.Mid-2.3) > 1e-3 || math.Abs(p.AppRatio.Mid-1.1) > 1e-3 {
		t.Errorf("the proxy is %v times, its application %v; want 2.3 and 1.1", p.Ratio.Mid, p.AppRatio.Mid)
	}
	const want = "The proxy costs 17.5 µs; our engine saves 4.73 µs; being the twin makes no difference."
	testkit.Equal(t, a.Verdict(), want)
	var text, page bytes.Buffer
	testkit.Must(t, a.WriteText(&text))
	testkit.Must(t, a.writePage(&page))
	for _, want := range []string{"The proxy costs 17.5 µs;",
		"the proxy 17.55 15.00–20.10 2.30 2.30–2.30 more 1.10 1.10–1.10 nginx → net/http with net/http"} {
		testkit.Contains(t, strings.Join(strings.Fields(text.String()), " "), want)
	}
	if !strings.Contains(page.String(), "Cost of the parts") || !strings.Contains(page.String(), "our engine") {
		t.Error("the page lacks the comparisons")
	}
	unclear := analyze.Pair{Comparison: sample.Comparison{What: "noise"}, Ratio: stat.Interval{Lo: 0.9, Mid: 1, Hi: 1.1}}
	testkit.Equal(t, pairSentence(&unclear), "the cost of noise is unclear in this run")
}

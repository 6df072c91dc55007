package report

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// crowdedRun returns a run of many contenders with long names, some of which failed, differ or were
// counted.
func crowdedRun() *sample.Run {
	run := fixture()
	run.Conditions = append(run.Conditions, sample.Condition{Cores: 0, Connections: 64})
	for i := range 8 {
		name := fmt.Sprintf("more-%d", i)
		run.Entrants = append(run.Entrants, sample.Entrant{
			Name: name, Title: fmt.Sprintf("nginx → an application of many words, %d", i), About: "one more",
			Kind: sample.Way, Protocol: "http",
			Versions: []string{"nginx/1.22.1", fmt.Sprintf("Python 3.%d", i)},
			Response: run.Entrants[0].Response, Declared: []sample.DeclaredDifference{{Difference: equal.Difference{
				What: "field Server", Want: `"gophr"`, Got: `"other"`}, Why: "each has its own head"}},
		})
		for _, c := range run.Conditions {
			for block := range blocks {
				run.Records = append(run.Records, record(name, block+1, c, 12, 11+float64(i)/50))
			}
		}
	}
	start(run)
	run.Records[5].Failure, run.Records[5].Load = "it fell\nover", nil
	run.Records[7].Attribution = &sample.Attribution{}
	return run
}

// layout is what a script in the browser found on a page.
type layout struct {
	Wide   int      // how far the page scrolls sideways, in pixels
	Out    []string // texts outside of their chart
	Over   []string // overlapping texts
	Texts  int      // number of texts in charts
	Closed int      // number of closed details
}

// framed is a page in a frame of this width.
type framed struct {
	page  string
	width int
}

// inspectPages opens pages in frames and examines every text of their charts.
func inspectPages(t *testing.T, pages ...framed) (layouts []layout) {
	t.Helper()
	const script = `
window.onload = () => { document.getElementById("found").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {
  const d = frame.contentDocument, out = [], over = [], details = [...d.querySelectorAll("details")], closed = details.filter(x => !x.open).length;
  let texts = 0;
  details.forEach(x => { x.open = true; });
  d.querySelectorAll("svg[viewBox]").forEach(svg => {
    const s = svg.getBoundingClientRect(), boxes = [];
    svg.querySelectorAll("text").forEach(x => {
      const b = x.getBoundingClientRect(), past = Math.max(s.left - b.left, b.right - s.right, s.top - b.top, b.bottom - s.bottom);
      texts++;
      if (past > 1) out.push(x.textContent + " by " + past);
      if (!x.matches(".name, .label, .tick text")) return;
      boxes.filter(o => b.left < o.b.right - 1 && o.b.left < b.right - 1 && b.top < o.b.bottom - 4 && o.b.top < b.bottom - 4).forEach(o => over.push(x.textContent + " / " + o.text));
      boxes.push({b, text: x.textContent});
    });
  });
  return {Wide: d.scrollingElement.scrollWidth - d.scrollingElement.clientWidth, Out: out, Over: over, Texts: texts, Closed: closed};
})); };`
	chromium := programs.Chromium(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "frames.html")
	var around strings.Builder
	fmt.Fprintf(&around, `<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>%s</script>`, script)
	for _, p := range pages {
		fmt.Fprintf(&around, `<iframe style="border: 0; width: %dpx; height: 900px" srcdoc="%s"></iframe>`, p.width,
			html.EscapeString(p.page))
	}
	testkit.WriteFile(t, file, around.String())
	dom, messages := programs.Browse(t, chromium, dir, "--window-size=1400,1000", "--dump-dom", "file://"+file)
	found := regexp.MustCompile(`(?s)<pre id="found">(.*?)</pre>`).FindStringSubmatch(dom)
	if found == nil {
		t.Fatalf("the script wrote nothing: %.300s", dom)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &layouts); err != nil ||
		len(layouts) != len(pages) {
		t.Fatalf("%v: %.300s\n%s", err, found[1], messages)
	}
	return layouts
}

// On wide and narrow screens no text is cut, no texts overlap, and the page does not scroll
// sideways.
func TestPageFitsWideAndNarrowScreens(t *testing.T) {
	t.Parallel()
	b := New(crowdedRun()).page()
	const faulty = `<svg viewBox="0 0 100 20" style="width: 1500px"><text class="name" x="-30" y="10">one</text><text class="name" x="-25" y="10">two</text></svg>`
	pages := []framed{{b, 1100}, {b, 400}, {faulty, 1100}}
	layouts := inspectPages(t, pages...)
	for i, p := range layouts[:2] {
		if p.Wide > 0 || len(p.Out) > 0 || len(p.Over) > 0 {
			t.Errorf("%d wide: scrolls by %d, texts outside %q, overlapping %q, %d texts", pages[i].width, p.Wide, p.Out,
				p.Over, p.Texts)
		}
		if p.Texts < 100 || p.Closed < 2 {
			t.Errorf("%d wide: %d texts, %d closed details: the page has too few for this test", pages[i].width,
				p.Texts, p.Closed)
		}
	}
	if p := layouts[2]; p.Wide == 0 || len(p.Out) != 2 || len(p.Over) != 1 {
		t.Errorf("the script misses faults: %+v", p)
	}
}

// The printed page shows closed details, and has no empty pages.
func TestPrintedPageShowsAllDetails(t *testing.T) {
	t.Parallel()
	b := New(fixture()).page()
	for _, want := range []string{"@media print", "details::details-content", "break-inside: avoid"} {
		testkit.Contains(t, b, want, "the page")
	}
	chromium := programs.Chromium(t)
	dir := t.TempDir()
	size := func(pageText string) int64 {
		file, paper := filepath.Join(dir, PageFile), filepath.Join(dir, "report.pdf")
		testkit.WriteFile(t, file, pageText)
		programs.Browse(t, chromium, dir, "--no-pdf-header-footer", "--print-to-pdf="+paper, "file://"+file)
		info := testkit.Value(os.Stat(paper))(t)
		return info.Size()
	}
	open := strings.ReplaceAll(b, "<details>", "<details open>")
	// Details that are closed on the screen are printed, too.
	if closed, opened := size(b), size(open); closed < opened*95/100 {
		t.Errorf("printed: %d bytes with closed details, %d with open ones", closed, opened)
	}
}

// bare returns a report without tables.
func bare(run *sample.Run) *Report { return &Report{Analysis: &analyze.Analysis{Run: run}} }

// Versions are on the page and in the text.
func TestVersionsAreInAllOutputs(t *testing.T) {
	run := crowdedRun()
	run.Conditions = run.Conditions[2:]
	a := New(run)
	b, text := a.page(), a.Text()
	for _, want := range []string{
		`<td class="wrap">nginx/1.22.1, Python 3.7</td><td class="wrap">http</td></tr>`,
		`<title>one more; nginx/1.22.1, Python 3.7</title>`,
	} {
		testkit.Contains(t, b, want, "the page")
	}
	testkit.Contains(t, text, "one more    nginx/1.22.1, Python 3.7  http\n")
}

// Differences with the same reason are on one line.
func TestDifferencesAreGroupedByReason(t *testing.T) {
	run := crowdedRun()
	last := &run.Entrants[len(run.Entrants)-1]
	last.Declared = append(last.Declared, sample.DeclaredDifference{
		Difference: equal.Difference{What: "bytes", Want: "153", Got: "160"}, Why: "its head is longer"})
	run.Entrants[2].Differences = []equal.Difference{{What: "status", Want: "200", Got: "404"}}
	a := bare(run)
	reasons := a.reasons()
	if len(reasons) != 2 || len(reasons[0].titles) != 8 || len(reasons[1].titles) != 1 || reasons[1].titles[0] != last.Title {
		t.Fatalf("%+v", reasons)
	}
	text := a.Text()
	for _, want := range []string{
		"nginx → net/http: status: 404, where the control has 200",
		"each has its own head: nginx → an application of many words, 0, ",
		`nginx → an application of many words, 7: field Server: "other", where the control has "gophr"`,
		"its head is longer: nginx → an application of many words, 7 nginx",
	} {
		testkit.Contains(t, squeeze(text), want, "the text")
	}
}

// The notes of latency differ at saturation and at a fixed rate, and each contender has a color.
func TestLatencyPlotNamesContenders(t *testing.T) {
	a := New(fixture())
	p := a.latencyPlot(&a.Tables[0])
	if len(p.Legend) != 6 || p.Legend[0].Class != "line-control" || p.Legend[1].Class != "line-twin" ||
		p.Legend[5].Class != "line-ceiling" || p.Legend[4].Text != "tare" {
		t.Fatalf("%+v", p)
	}
	a.Tables[0].Rate = 5000
	if got := a.Tables[0].LatencyNote(); !strings.Contains(got, "was due") ||
		!strings.Contains(got, "5000 per second") {
		t.Errorf("at a fixed rate: %s", got)
	}
	if got := a.Tables[1].LatencyNote(); !strings.Contains(got, "closed loop") || strings.Contains(got, "was due") {
		t.Errorf("at saturation: %s", got)
	}
}

// Parts that few runs have are on the page, and values are escaped.
func TestPageHasRareParts(t *testing.T) {
	run := ratedSample(func(*sample.Record) {})
	for i := range run.Conditions {
		run.Conditions[i].Scenario.Name = "hello"
	}
	for i := range run.Records {
		run.Records[i].Condition.Scenario.Name = "hello"
	}
	closing := *run.Entrants[3].Response
	closing.KeepAlive = false
	run.Entrants[3].Response = &closing
	run.Entrants[3].Differences = []equal.Difference{{What: "body", Want: "<b>", Got: "it's"}}
	b := New(run).page()
	run.Targets = []sample.Target{{Row: "hello", Contender: "tare", Metric: sample.CPU,
		Require: sample.Limit{Value: 20}}}
	b += New(run).page()
	for _, want := range []string{
		"<p>Requests per CPU-second: ", "(1s at a fixed rate)", "<td>no</td>", "&lt;b&gt;", "it&#39;s",
		`<h2 id="targets">Targets</h2>`,
	} {
		testkit.Contains(t, b, want, "the page")
	}
}

package cli

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// The page of a series links to the reports, and names experiments that failed or were not started.
func TestSeriesPageShowsEveryOutcome(t *testing.T) {
	s := series{started: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), of: 5, dir: t.TempDir(), done: []seriesEntry{
		{Name: "a", Title: "<A>", Verdict: `fast & "good"`, Report: "a/report.html", Duration: time.Second},
		{Name: "b", Title: "B", Duration: time.Minute, err: errors.New("not built")},
		{Name: "c", Title: "C", Verdict: "slow", Duration: time.Hour, err: &exitError{exitStop, errors.New("stop")}},
	}}
	file := testkit.Value(s.writePage())(t)
	page := testkit.Value(os.ReadFile(file))(t)
	const want = `<main>
<h1>All experiments</h1>
<p class="question">3 February 2026, 04:05, 1 of 3 complete, 2 not started</p>
<h2><a href="a/report.html">a</a></h2>
<p class="question">&lt;A&gt;</p>
<p class="verdict">fast &amp; &#34;good&#34;</p>
<p class="note">complete after 1s</p>
<h2>b</h2>
<p class="question">B</p>
<p class="note">failed after 1m0s</p>
<h2>c</h2>
<p class="question">C</p>
<p class="verdict">slow</p>
<p class="note">interrupted after 1h0m0s</p>
</main>
`
	_, main, _ := strings.Cut(string(page), "<body>\n")
	if main, _, _ = strings.Cut(main, "</body>"); main != want {
		t.Errorf("got %s\nwant %s", main, want)
	}
}

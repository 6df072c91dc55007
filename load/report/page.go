package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/tarehq/tare/internal/page"
)

//go:embed page.html page.css
var pageSource embed.FS

// WritePage writes the run as one self-contained HTML file.
func (r *Run) WritePage(w io.Writer) error {
	const body = "page.html" // a template
	t := template.Must(template.New(body).Option("missingkey=error").Funcs(pageFuncs()).ParseFS(pageSource, body))
	var b strings.Builder
	styles, err := pageSource.ReadFile("page.css")
	if err = cmp.Or(err, t.Execute(&b, r)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, page.Framed("Load: "+r.URL, string(styles), b.String()))
	return err
}

func pageFuncs() map[string]any {
	return map[string]any{
		"duration": Duration,
		"count":    func(n uint64) string { return Count(float64(n)) },
		"size":     func(n uint64) string { return sizeText(float64(n)) },
		"percent":  func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"share": func(part, of uint64) string {
			return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(max(of, 1)))
		},
		"join": strings.Join,
	}
}

// Verdict returns the run's result in one sentence.
func (r *Run) Verdict() string {
	if r.Requests == 0 {
		return "No responses: " + Errors(&r.Errors) + "."
	}
	failed := "no errors"
	if n := r.Errors.Total(); n > 0 {
		failed = CountErrors(n)
	}
	since := ""
	if r.Open() {
		since = " after they were due"
	}
	return fmt.Sprintf("%s requests/s; half had a response within %s, 99 %% within %s%s; %s.",
		Count(r.PerSecond()), Duration(r.Latency.Quantile(0.5)), Duration(r.Latency.Quantile(0.99)), since, failed)
}

// Warnings returns the run's first error, its first STDERR output and the doubts about it.
func (r *Run) Warnings() (all []string) {
	if r.Errors.First != "" {
		all = append(all, "First error: "+r.Errors.First)
	}
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		all = append(all, fmt.Sprintf("First on STDERR: %q", f.Stderr))
	}
	for _, doubt := range r.Doubts() {
		all = append(all, sentence(doubt)+".")
	}
	return all
}

// HeadLines returns the head of the first response without its line endings at the end.
func (r *Run) HeadLines() string {
	return strings.TrimRight(strings.ReplaceAll(r.Head, "\r\n", "\n"), "\n")
}

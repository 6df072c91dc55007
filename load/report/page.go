package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/page"
)

//go:embed page.html
var pageSource embed.FS

// WritePage writes the run as one HTML file that needs nothing else.
func (r *Run) WritePage(w io.Writer) error {
	return page.Write(w, pageSource, pageFuncs(), r)
}

// pageFuncs are what the page's template calls.
func pageFuncs() template.FuncMap {
	return template.FuncMap{
		"duration": Duration,
		"due":      Count,
		"count":    func(n uint64) string { return Count(float64(n)) },
		"size":     func(n uint64) string { return Size(float64(n)) },
		"percent":  func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"share":    func(part, of uint64) string { return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(max(of, 1))) },
		"kinds":    errorKinds,
		"sentence": sentence,
		"codes":    func(m map[int]uint64) []int { return slices.Sorted(maps.Keys(m)) },
		"names":    func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
	}
}

// Verdict is the run in a sentence.
func (r *Run) Verdict() string {
	if r.Requests == 0 {
		return "Nothing was answered: " + Errors(&r.Errors) + "."
	}
	failed := "no errors"
	if n := r.Errors.Total(); n > 0 {
		failed = Count(float64(n)) + " errors"
		if n == 1 {
			failed = "1 error"
		}
	}
	since := ""
	if r.open() {
		since = " of when they were due"
	}
	return fmt.Sprintf("%s requests a second; half were answered within %s, 99 %% within %s%s; %s.",
		Count(r.PerSecond()), Duration(r.Latency.Quantile(0.5)), Duration(r.Latency.Quantile(0.99)), since, failed)
}

// Circumstances are the few words that figures mean nothing without.
func (r *Run) Circumstances() string { return sentence(r.circumstances()) + "." }

// Open reports whether requests were due at times of their own.
func (r *Run) Open() bool { return r.open() }

// CPUPerRequest is the generator's processor time.
func (r *Run) CPUPerRequest() time.Duration {
	return time.Duration(r.perRequest(r.Generator.UserSeconds+r.Generator.SysSeconds) * float64(time.Second))
}

// BodyPerRequest is how many bytes of body a response had.
func (r *Run) BodyPerRequest() string { return Size(r.perRequest(float64(r.BodyBytes))) }

// Warnings are what a reader must not miss.
func (r *Run) Warnings() (all []string) {
	for _, doubt := range r.Doubts() {
		all = append(all, sentence(doubt)+".")
	}
	if r.Errors.First != "" {
		all = append(all, "First error: "+r.Errors.First)
	}
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		all = append(all, fmt.Sprintf("First on STDERR: %q", f.Stderr))
	}
	return all
}

// HeadLines is the head of the first response, without what ends it.
func (r *Run) HeadLines() string {
	return strings.TrimRight(strings.ReplaceAll(r.Head, "\r\n", "\n"), "\n")
}

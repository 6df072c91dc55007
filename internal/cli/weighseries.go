//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/textbar"
)

const seriesFile = "index.html" // page that links to the reports of a series

type series struct {
	started time.Time
	of      int    // number of experiments
	dir     string // results folder; empty if there is none
	done    []seriesEntry
}

type seriesEntry struct {
	Name, Title string
	Verdict     string // empty if nothing was started
	Report      string // its file; empty if there is none
	Duration    time.Duration
	err         error
}

// Outcome returns the outcome in one word.
func (w *seriesEntry) Outcome() string {
	x, ok := errors.AsType[*exitError](w.err)
	switch {
	case w.err == nil:
		return "complete"
	case ok && x.code == exitStop:
		return "interrupted"
	case w.Verdict == "":
		return "failed"
	}
	return "incomplete"
}

func (s *series) add(e *lab.Experiment, a *report.Report, err error, elapsed time.Duration) {
	w := seriesEntry{Name: e.Name, Title: e.Title, Duration: elapsed.Round(100 * time.Millisecond), err: err}
	if a != nil {
		w.Verdict = a.Verdict()
	}
	file := filepath.Join(s.dir, e.Name, report.PageFile)
	if _, statErr := os.Stat(file); s.dir != "" && statErr == nil {
		w.Report = file
	}
	s.done = append(s.done, w)
}

// end prints the outcome of each experiment and returns that of the series.
func (s *series) end(ctx context.Context, env Env, prepared bool) error {
	if !prepared {
		s.summarize(env)
	}
	for _, d := range s.done {
		if d.err != nil {
			fmt.Fprintf(env.Stderr, "%s: %v\n", d.Name, d.err)
		}
	}
	failed := len(s.done) - s.Complete()
	switch {
	case ctx.Err() != nil:
		return &exitError{exitStop, fmt.Errorf("interrupted in experiment %d of %d", len(s.done), s.of)}
	case failed > 0:
		return &exitError{exitFail, fmt.Errorf("%d of %d experiments are incomplete; see above", failed, s.of)}
	}
	return nil
}

func (s *series) summarize(env Env) {
	fmt.Fprintf(env.Stdout, "== summary\n\n")
	for _, d := range s.done {
		if d.Verdict != "" {
			fmt.Fprintf(env.Stdout, "%s\n\n", textbar.Wrap(d.Name+": "+d.Verdict, document.Width, ""))
		}
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "experiment\tresult\tduration\treport\n")
	for _, d := range s.done {
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\n", d.Name, d.Outcome(), d.Duration, d.Report)
	}
	_ = w.Flush()
	if file, err := s.writePage(); err != nil {
		fmt.Fprintf(env.Stderr, "cannot write the page of all reports: %v\n", err)
	} else if file != "" {
		fmt.Fprintf(env.Stdout, "\nAll reports: %s\n", file)
	}
}

// writePage writes the page that links to the reports and returns its name; empty without a folder.
func (s *series) writePage() (file string, err error) {
	if s.dir == "" {
		return "", nil
	}
	file = filepath.Join(s.dir, seriesFile)
	d := document.Document{Title: "All experiments", Question: fmt.Sprintf("%s, %d of %d complete",
		s.started.Format("2 January 2006, 15:04"), s.Complete(), len(s.done))}
	if left := s.of - len(s.done); left > 0 {
		d.Question += fmt.Sprintf(", %d not started", left)
	}
	for _, e := range s.done {
		heading := document.Heading{Level: 2, Text: e.Name}
		if e.Report != "" {
			heading.Link = e.Name + "/" + report.PageFile
		}
		d.Add(heading, document.Paragraph{Class: "question", Text: e.Title},
			document.Paragraph{Class: "verdict", Text: e.Verdict},
			document.Note(fmt.Sprintf("%s after %v", e.Outcome(), e.Duration)))
	}
	return file, os.WriteFile(file, []byte(d.Page("")), 0o644)
}

// Complete returns the number of complete experiments.
func (s *series) Complete() (n int) {
	for _, d := range s.done {
		if d.err == nil {
			n++
		}
	}
	return n
}

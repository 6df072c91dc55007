// Package report turns what trials showed into what a person reads: a verdict,
// tables, pictures, and files for other tools.
//
// Run is its whole input. Analyze makes rows of it, and everything that is shown
// comes from those rows: the terminal's tables (text.go), the page (page.go), CSV
// and the Go benchmark format (files.go). The sentence that answers the question is
// made in verdict.go, what a reader must be warned of in checks.go.
package report

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/kernel"
	"github.com/tarehq/tare/lab/trial"
)

// Run is one run of an experiment. It is kept as run.json, its records next to it as
// trials.jsonl.
type Run struct {
	Tool       string    `json:"tool"` // our own version
	Experiment string    `json:"experiment"`
	Flags      []string  `json:"flags"`          // the words with which it was run, but for the seed
	Tail       []string  `json:"tail,omitempty"` // those that come after the seed
	Title      string    `json:"title"`
	Question   string    `json:"question"`
	Source     string    `json:"source"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`

	Seed       uint64            `json:"seed"`
	Blocks     int               `json:"blocks"`
	Warmup     time.Duration     `json:"warmupNs"`
	Measure    time.Duration     `json:"measureNs"`
	Conditions []trial.Condition `json:"conditions"` // those at a fixed rate last

	// RateMeasure is for how long trials at a fixed rate were measured; 0 if there are none.
	RateMeasure time.Duration `json:"rateMeasureNs,omitempty"`
	Sweeps      []Sweep       `json:"sweeps,omitempty"`

	Placement string `json:"placement"` // which processors the servers and the generator had

	Entrants    []Entrant   `json:"entrants"` // the control first
	Environment Environment `json:"environment"`
	Published   []Published `json:"published"`

	Compare []Comparison `json:"compare"` // of contenders that differ in one part

	Kernel []kernel.Row    `json:"kernel,omitempty"` // the write-up's kernel settings, and this machine's
	Tuned  []kernel.Change `json:"tuned,omitempty"`  // what of them was changed for the run

	// Reached says which bounds that kernel settings draw were reached: whole sentences.
	Reached []string `json:"reached,omitempty"`

	// Notes are what a reader should know though nothing is wrong: whole sentences.
	Notes []string `json:"notes,omitempty"`

	// Tested are the counter-experiments that were carried out.
	CounterExperiments []CounterExperiment `json:"tested,omitempty"`

	// Warnings are about the run as a whole, such as that it was interrupted.
	Warnings []string `json:"warnings"`

	Records []trial.Record `json:"-"`
}

// Kind is what part a contender has in an experiment.
type Kind string

// The kinds, in the order in which they are shown.
const (
	Control Kind = "control" // what ratios refer to
	Build   Kind = "build"   // another build of the control, to be compared with it
	Twin    Kind = "twin"    // the control again: whatever differs between them is chance
	Way     Kind = "way"
	Rival   Kind = "rival"
	Ceiling Kind = "ceiling"
)

// Entrant is a contender in a run.
type Entrant struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	About    string   `json:"about"`
	Kind     Kind     `json:"kind"`
	Protocol string   `json:"protocol"` // that its application speaks
	Versions []string `json:"versions"`
	Lines    int      `json:"lines"` // of the application's source; 0 if nobody counted them

	// PublishedLines are those of the write-up's application, if it tells them.
	PublishedLines int `json:"publishedLines,omitempty"`

	Response    *equal.Response    `json:"answer"`
	Differences []equal.Difference `json:"differences"` // from the control's answer, that nobody declared
	Declared    []Declared         `json:"declared"`    // those that the experiment declares

	// Absent says why it took no part, or no further part. Empty if it did.
	Absent string `json:"absent,omitempty"`
}

// Comparison is of two contenders that differ in one part, so that the difference is what the
// part costs.
type Comparison struct {
	What string `json:"what"` // the part
	Of   string `json:"of"`   // the name of the contender that has it
	Than string `json:"than"` // of the one that has not, or has another
}

// Declared is a difference that is as it should be.
type Declared struct {
	equal.Difference
	Why string `json:"why"`
}

// Environment is the machine that a run was made on.
type Environment struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Memory  uint64            `json:"memoryBytes"`
	Kernel  string            `json:"kernel"`
	System  string            `json:"system"`
	Go      string            `json:"go"` // that built this tool
	Nofile  uint64            `json:"nofile"`
	Sysctls map[string]string `json:"sysctls"`
}

// Published is a figure of the write-up that the experiment repeats.
type Published struct {
	Group     string  `json:"group"`
	Theirs    string  `json:"theirs"`
	Contender string  `json:"contender"`
	PerSecond float64 `json:"perSecond"`
	Ratio     float64 `json:"ratio"` // to its control
}

// Command returns the command line that runs the same trials in the same order.
func (r *Run) Command() string {
	words := slices.Concat([]string{"tare", "weigh"}, r.Flags, []string{"--seed", strconv.FormatUint(r.Seed, 10)}, r.Tail)
	for i := range words {
		words[i] = quote(words[i])
	}
	return strings.Join(words, " ")
}

// quote writes a word so that a shell reads it as one.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,=@%+{}", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Complete reports whether everything that was to be compared was compared, and
// kept.
func (r *Run) Complete() bool {
	if len(r.Warnings) > 0 {
		return false
	}
	for _, e := range r.Entrants {
		if e.Absent != "" {
			return false
		}
	}
	for i := range r.Records {
		if r.Records[i].Failure != "" {
			return false
		}
	}
	return true
}

func (r *Run) control() *Entrant { return r.entrantOf(Control) }

// entrantOf returns the first entrant of a kind, or nil.
func (r *Run) entrantOf(kind Kind) *Entrant {
	for i := range r.Entrants {
		if r.Entrants[i].Kind == kind {
			return &r.Entrants[i]
		}
	}
	return nil
}

// Package sample holds what a run of the lab measured, as it is stored: the run itself (run.json),
// and a record of each contender in each block (the journal, trials.jsonl). It computes sums of a
// record, and no statistics.
//
// # Glossary
//
//   - An entrant is a contender in a run.
//   - The weight of a contender is its CPU time per request, of all its processes.
//   - A metric is a figure that a record has: CPU time per request, rate, latency, errors.
//   - Of events, a case is one server, or one way of replacing it, to which they happen. A group is
//     clients that send requests in one way. An outcome is what a client received for a request; all
//     but Response are losses. A crowd is many clients that send or read slowly on purpose. A mark
//     is an event of the case's plan.
package sample

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/equal"
)

// Run is one run of an experiment. It is stored as run.json, and its records as trials.jsonl beside
// it. Until the run ends, its Seconds are 0.
type Run struct {
	Tool       string    `json:"tool"` // version of tare
	Experiment string    `json:"experiment"`
	Flags      []string  `json:"flags"`          // arguments of the command, without the seed
	Tail       []string  `json:"tail,omitempty"` // arguments after the seed
	Title      string    `json:"title"`
	Question   string    `json:"question"`
	Conclusion string    `json:"conclusion,omitempty"` // see FillConclusion
	Source     string    `json:"source"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`

	Seed       uint64        `json:"seed"`
	Blocks     int           `json:"blocks"`
	Warmup     time.Duration `json:"warmupNs"`
	Measure    time.Duration `json:"measureNs"`
	Conditions []Condition   `json:"conditions"` // fixed rates last

	// RateMeasure is how long each trial at a fixed rate measures; 0 if there are none.
	RateMeasure time.Duration `json:"rateMeasureNs,omitempty"`

	Placement string `json:"placement"`      // processors of the servers and of the generator
	Link      *Link  `json:"link,omitempty"` // to the generator; nil if it runs on this machine

	Entrants    []Entrant   `json:"entrants"` // the control first
	Environment Environment `json:"environment"`

	Compare []Comparison `json:"compare"` // pairs of contenders that differ in one part
	Targets []Target     `json:"targets,omitempty"`

	Events *Events `json:"events,omitempty"` // nil unless events are counted

	// HasPrograms is set if the contenders are programs that measured themselves.
	HasPrograms bool `json:"programs,omitempty"`

	// Notes holds sentences that a reader should know and that are not warnings.
	Notes []string `json:"notes,omitempty"`

	Warnings []string `json:"warnings"` // about the whole run, such as that it was interrupted

	Records []Record `json:"-"`
	Count   int      `json:"records,omitempty"` // of the journal; 0 if it is unknown
}

// Kind is the role of a contender in an experiment.
type Kind string

// The kinds, in display order.
const (
	Control Kind = "control" // the contender that others are compared with
	Build   Kind = "build"   // another build of the control
	Twin    Kind = "twin"    // a second copy of the control: differences between them are chance
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
	Protocol string   `json:"protocol"`
	Versions []string `json:"versions"`

	Response    *equal.Response      `json:"response"`
	Differences []equal.Difference   `json:"differences"` // undeclared differences from the control's response
	Declared    []DeclaredDifference `json:"declared"`    // differences that the experiment declares

	// Absent says why the contender did not take part to the end; otherwise it is empty.
	Absent string `json:"absent,omitempty"`
}

// Comparison is a pair of contenders that differ in one part. Their difference is the cost of the
// part.
type Comparison struct {
	What string `json:"what" yaml:"what"` // the part, as the subject of a sentence
	Of   string `json:"of" yaml:"of"`     // name of the contender with the part
	Than string `json:"than" yaml:"than"` // name of the contender without it, or with another
}

// DeclaredDifference is a difference that the experiment expects.
type DeclaredDifference struct {
	equal.Difference
	Why string `json:"why"`
}

// Environment is the machine of a run.
type Environment struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Memory  uint64            `json:"memoryBytes"`
	Kernel  string            `json:"kernel"`
	System  string            `json:"system"`
	Go      string            `json:"go"` // version of Go that built tare
	Nofile  uint64            `json:"nofile"`
	Sysctls map[string]string `json:"sysctls"`
}

// Command returns the command line that repeats the same trials in the same order.
func (r *Run) Command() string {
	var seed []string
	if r.Seed > 0 {
		seed = []string{"--seed", strconv.FormatUint(r.Seed, 10)}
	}
	words := slices.Concat([]string{"tare", "weigh"}, r.Flags, seed, r.Tail)
	for i := range words {
		words[i] = quote(words[i])
	}
	return strings.Join(words, " ")
}

// quote returns a word as a shell has to read it.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:,=@%+{}", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Complete reports whether all trials of all contenders succeeded, without warnings.
func (r *Run) Complete() bool {
	isLeftOut := func(e *Entrant) bool { return e.Absent != "" }
	if len(r.Warnings) > 0 || First(r.Entrants, isLeftOut) != nil ||
		r.Events != nil && First(r.Events.Cases, func(c *Case) bool { return c.Absent != "" }) != nil {
		return false
	}
	return First(r.Records, func(rec *Record) bool { return rec.Failure != "" }) == nil
}

// Control returns the control, or nil.
func (r *Run) Control() *Entrant { return r.OfKind(Control) }

// OfKind returns the first entrant of a kind, or nil.
func (r *Run) OfKind(kind Kind) *Entrant {
	return First(r.Entrants, func(e *Entrant) bool { return e.Kind == kind })
}

// Entrant returns the entrant with a name, or nil.
func (r *Run) Entrant(name string) *Entrant {
	return First(r.Entrants, func(e *Entrant) bool { return e.Name == name })
}

// First returns the first of some values that satisfies a condition, or nil.
func First[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// TitleOf returns the title of the entrant with a name, or the name if there is none.
func (r *Run) TitleOf(name string) string {
	if e := r.Entrant(name); e != nil {
		return e.Title
	}
	return name
}

// FillConclusion replaces each placeholder of an experiment's conclusion, such as "{tare, nginx}",
// by what value returns for its names. If that is "" once, FillConclusion returns "".
func FillConclusion(conclusion string, value func(names []string) string) string {
	isKnown := true
	filled := regexp.MustCompile(`\{.*?\}`).ReplaceAllStringFunc(conclusion, func(list string) string {
		text := value(strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("{}, ", r) }))
		isKnown = isKnown && text != ""
		return text
	})
	if !isKnown {
		return ""
	}
	return filled
}

// Link is the network between the servers and a generator on another machine.
type Link struct {
	Host    string `json:"host"`    // the generator's
	Address string `json:"address"` // on which the servers listen
	// RoundTrip is the median time of a request and its response, without other load, ShortestTrip
	// the shortest.
	RoundTrip    time.Duration `json:"roundTripNs"`
	ShortestTrip time.Duration `json:"shortestTripNs"`
	// ToServers and FromServers are the bandwidths that HTTP reached, in bytes per second.
	ToServers   float64 `json:"toServersPerSecond"`
	FromServers float64 `json:"fromServersPerSecond"`
}

// Text describes the link.
func (l *Link) Text() string {
	return fmt.Sprintf("The generator runs on %s and the servers listen on %s. A round trip takes %v (shortest %v). The network carries %s to the servers and %s from them.",
		l.Host, l.Address, l.RoundTrip.Round(time.Microsecond), l.ShortestTrip.Round(time.Microsecond),
		bits(l.ToServers), bits(l.FromServers))
}

func bits(bytesPerSecond float64) string {
	const mega, giga = 1e6, 1e9
	if b := 8 * bytesPerSecond; b < giga {
		return fmt.Sprintf("%.0f Mbit/s", b/mega)
	}
	return fmt.Sprintf("%.1f Gbit/s", 8*bytesPerSecond/giga)
}

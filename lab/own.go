package lab

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/yamlfile"
)

// ownNginxConf is the template of nginx.conf for applications of the reader's own, and
// for experiments that have none.
//
//go:embed own.conf
var ownNginxConf string

// Subject is what is weighed: an experiment, and those of its contenders that have no
// folder in contenders/.
type Subject struct {
	Experiment *Experiment
	Specs      []*contender.Spec
}

// Own is an application of the reader's own.
type Own struct {
	Command []string      // its words; {addr}, {port} and {socket} in them, or in Env, are where it must listen
	Env     []string      // variables, "NAME=value", besides those that this process has
	Folder  string        // absolute: where it runs
	FastCGI bool          // it speaks FastCGI, not HTTP
	Ready   time.Duration // how long it may take until it answers; 0 is ten seconds
}

// Ask is what applications of the reader's own are asked, and what is right.
type Ask struct {
	Path   string      // "" is /
	Host   string      // "" is localhost
	Expect Expectation // the zero value is ByControl
}

// Names of the contenders that an application of the reader's own takes part as.
const (
	ownAlone = "alone"
	ownTCP   = "nginx-tcp"
	ownUnix  = "nginx-unix"

	buildA = "a"
	buildB = "b"
)

// Trials of an application of the reader's own: a minute and a half, and half an hour.
func ownTrials() (quick, full Trials) {
	quick = Trials{
		Blocks: 8, Warmup: yamlfile.Duration(300 * time.Millisecond), Measure: yamlfile.Duration(1500 * time.Millisecond),
		Cores: []Cores{1}, Connections: []int{64},
	}
	full = Trials{
		Blocks: 10, Warmup: yamlfile.Duration(2 * time.Second), Measure: yamlfile.Duration(8 * time.Second),
		Cores: []Cores{1, 0}, Connections: []int{64, 1000},
	}
	return quick, full
}

// Subject returns the application in every way of serving it: alone, and behind nginx by
// the networks that it was told of. The error is a *UsageError.
func (o *Own) Subject(ask Ask) (*Subject, error) {
	alone, err := o.spec(ownAlone)
	if err != nil {
		return nil, err
	}
	e := ask.experiment(alone.Title, "What does nginx before "+alone.Title+" cost?")
	e.Control, e.Ways = ownAlone, []string{ownAlone}
	s := &Subject{Experiment: e, Specs: []*contender.Spec{alone}}
	network := alone.Network
	for _, way := range []struct{ name, network, title string }{{ownTCP, contender.TCP, "TCP"}, {ownUnix, contender.Unix, "unix"}} {
		if !o.told(way.network) {
			continue
		}
		behind, err := o.spec(way.name)
		if err != nil {
			return nil, err
		}
		behind.Title = fmt.Sprintf("nginx → %s (%s)", filepath.Base(o.Command[0]), way.title)
		if o.FastCGI {
			behind.Title = fmt.Sprintf("nginx → %s (FastCGI, %s)", filepath.Base(o.Command[0]), way.title)
		}
		behind.About = fmt.Sprintf("nginx before the same, by %s, with kept connections", way.title)
		behind.Front, behind.Needs = contender.Nginx, []string{contender.Nginx}
		if network != "" {
			behind.Network = way.network
		}
		e.Ways = append(e.Ways, way.name)
		s.Specs = append(s.Specs, behind)
	}
	return s, nil
}

// Builds returns two builds of one application, the second to be compared with the first.
// The error is a *UsageError.
func Builds(a, b Own, ask Ask) (*Subject, error) {
	specA, err := a.spec(buildA)
	if err != nil {
		return nil, fmt.Errorf("--a: %w", err)
	}
	specB, err := b.spec(buildB)
	if err != nil {
		return nil, fmt.Errorf("--b: %w", err)
	}
	specA.Title, specB.Title = "A: "+specA.Title, "B: "+specB.Title
	e := ask.experiment(filepath.Base(a.Command[0]), "Does the second build cost more than the first?")
	e.Control, e.Ways, e.Build = buildA, []string{buildA}, buildB
	return &Subject{Experiment: e, Specs: []*contender.Spec{specA, specB}}, nil
}

// experiment returns one without contenders.
func (a *Ask) experiment(name, question string) *Experiment {
	e := &Experiment{Name: name, Title: name, Question: question, Expect: a.Expect}
	e.Request.Method, e.Request.Path, e.Request.Host = "GET", a.Path, a.Host
	if a.Path == "" {
		e.Request.Path = "/"
	}
	if a.Host == "" {
		e.Request.Host = "localhost"
	}
	if e.Expect == (Expectation{}) {
		e.Expect.By = ByControl
	}
	for _, what := range []string{anyField, "bytes", "keep-alive"} {
		e.Differs = append(e.Differs, Differ{What: what, Why: "only status and body have to be equal"})
	}
	e.Quick, e.Full = ownTrials()
	return e
}

// told reports whether the application is told where to listen for a network.
func (o *Own) told(network string) bool {
	return slices.ContainsFunc(slices.Concat(o.Command, o.Env), func(word string) bool {
		if network == contender.Unix {
			return strings.Contains(word, "{socket}")
		}
		return strings.Contains(word, "{addr}") || strings.Contains(word, "{port}")
	})
}

// spec returns the application alone.
func (o *Own) spec(name string) (*contender.Spec, error) {
	if len(o.Command) == 0 {
		return nil, &UsageError{"there is no command"}
	}
	s := &contender.Spec{
		Name: name, Title: filepath.Base(o.Command[0]), About: strings.Join(o.Command, " "), Protocol: contender.HTTP,
		Command: o.Command, Env: o.Env, Folder: o.Folder,
	}
	if o.FastCGI {
		s.Protocol = contender.FastCGI
		s.Title += " (FastCGI)"
	}
	s.Ready.Within = yamlfile.Duration(o.Ready)
	s.Fit(o.Folder)
	switch tcp, unix := o.told(contender.TCP), o.told(contender.Unix); {
	case !tcp && !unix:
		return nil, &UsageError{fmt.Sprintf("%q is not told where to listen: write {addr}, {port} or {socket} where its flags, or --env, have that", s.About)}
	case tcp && unix:
		s.Network = contender.TCP
	}
	if _, err := s.Program(); err != nil {
		return nil, &UsageError{err.Error()}
	}
	return s, nil
}

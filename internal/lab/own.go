package lab

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// ownNginxConf is the template of nginx.conf for the user's own applications, and for experiments
// without one.
//
//go:embed own.conf
var ownNginxConf string

// OwnRequest is the request to the user's own application, and the expected response.
type OwnRequest struct {
	Path   string      // "" is /
	Host   string      // "" is localhost
	Expect Expectation // the zero value is ByControl
}

// Names of the contenders that serve the user's own application.
const (
	ownAlone = "alone"

	buildA = "a"
	buildB = "b"
)

// ownTrials returns the trials of the user's own application. They take at most two minutes, and
// three quarters of an hour.
func ownTrials() (quick, full Trials) {
	quick = Trials{
		Blocks: 8, Warmup: yamlfile.Duration(300 * time.Millisecond),
		Measure: yamlfile.Duration(1500 * time.Millisecond), Cores: []Cores{1}, Connections: []int{64},
	}
	full = Trials{
		Blocks: 10, Warmup: yamlfile.Duration(2 * time.Second), Measure: yamlfile.Duration(8 * time.Second),
		Cores: []Cores{1, 0}, Connections: []int{64, 1000},
	}
	return quick, full
}

func ownFronts() []contender.Front {
	return []contender.Front{
		{Title: contender.Nginx, About: "nginx", Needs: []string{contender.Nginx}},
		{Title: "tare front", About: "tare's front", Needs: []string{contender.Tare}, Run: "{tare} serve -c {conf}"},
	}
}

// Own returns an experiment with an application of the user's own alone, and behind each front over
// each network for which its command has a placeholder. Of app it uses Command, Env, Folder, which
// is absolute, Protocol and Ready. The error is a *UsageError.
func Own(app contender.Spec, request OwnRequest) (*Experiment, error) {
	alone, err := ownSpec(app, "", ownAlone)
	if err != nil {
		return nil, err
	}
	e := request.experiment(alone.Title, "What does a front before "+alone.Title+" cost?")
	e.Control, e.Ways, e.Specs = ownAlone, []string{ownAlone}, []*contender.Spec{alone}
	var fronts []string
	for _, front := range ownFronts() {
		var names []string
		for _, network := range []string{contender.TCP, contender.Unix} {
			if !alone.HasAddress(network) {
				continue
			}
			s := behind(*alone, &front, network)
			names = append(names, s.Name)
			e.Specs = append(e.Specs, s)
		}
		e.Ways = append(e.Ways, names...)
		fronts = append(fronts, fmt.Sprintf("{%s} behind %s", strings.Join(names, ", "), front.About))
	}
	e.Conclusion = fmt.Sprintf("%s costs {%s} of CPU time per request, and %s", alone.Title, ownAlone,
		sample.List(fronts))
	return e, nil
}

func behind(alone contender.Spec, front *contender.Front, network string) *contender.Spec {
	by := map[string]string{contender.TCP: "TCP", contender.Unix: "unix"}[network]
	if alone.Protocol == contender.FastCGI {
		by = "FastCGI, " + by
	}
	is := alone
	is.Name = strings.ReplaceAll(front.Title, " ", "-") + "-" + network
	is.Title = fmt.Sprintf("%s → %s (%s)", front.Title, filepath.Base(alone.Command[0]), by)
	is.About = fmt.Sprintf("%s before the same application, by %s, with keep-alive connections", front.About, by)
	is.Front, is.FrontRun, is.Needs = front.Title, front.Run, front.Needs
	if is.Network != "" {
		is.Network = network
	}
	return &is
}

// Builds is like Own, but its experiment compares the second of two builds with the first.
func Builds(a, b contender.Spec, request OwnRequest) (*Experiment, error) {
	specA, err := ownSpec(a, OptionBuildA, buildA)
	if err != nil {
		return nil, err
	}
	specB, err := ownSpec(b, OptionBuildB, buildB)
	if err != nil {
		return nil, err
	}
	specA.Title, specB.Title = "A: "+specA.Title, "B: "+specB.Title
	e := request.experiment(filepath.Base(a.Command[0]), "Does the second build cost more than the first?")
	e.Control, e.Ways, e.Build = buildA, []string{buildA}, buildB
	e.Specs = []*contender.Spec{specA, specB}
	return e, nil
}

// experiment returns an experiment without contenders.
func (a *OwnRequest) experiment(name, question string) *Experiment {
	e := &Experiment{Name: name, Title: name, Question: question, Expect: a.Expect}
	e.Request.Method, e.Request.Path, e.Request.Host = "GET", cmp.Or(a.Path, "/"), cmp.Or(a.Host, "localhost")
	e.Expect = cmp.Or(e.Expect, Expectation{By: ByControl})
	for _, what := range []string{anyField, "bytes", "keep-alive"} {
		e.Differs = append(e.Differs, Differ{What: what, Why: "only status and body must be equal"})
	}
	e.Quick, e.Full = ownTrials()
	return e
}

// ownSpec returns the contender of the application alone. Its errors name the given option.
func ownSpec(app contender.Spec, option Option, name string) (*contender.Spec, error) {
	if len(app.Command) == 0 {
		return nil, UsageErrorf(option, "no command")
	}
	s := &app
	s.Name, s.Title, s.About = name, filepath.Base(s.Command[0]), strings.Join(s.Command, " ")
	s.Protocol = cmp.Or(s.Protocol, contender.HTTP)
	if s.Protocol == contender.FastCGI {
		s.Title += " (FastCGI)"
	}
	s.Fit(s.Folder)
	switch tcp, unix := s.HasAddress(contender.TCP), s.HasAddress(contender.Unix); {
	case !tcp && !unix:
		return nil, UsageErrorf(option, "%q has no address to listen on: write {addr}, {port} or {socket} in its arguments or environment", s.About)
	case tcp && unix:
		s.Network = contender.TCP
	}
	if _, err := s.Program(); err != nil {
		return nil, UsageErrorf(option, "%v", err)
	}
	return s, nil
}

type ownFile struct {
	Experiment Experiment                 `yaml:"experiment"`
	Contenders map[string]*contender.Spec `yaml:"contenders"`
}

// ReadOwn reads a file that holds an experiment and its contenders, as Write writes it. For
// invalid content the error is a *yamlfile.Error.
func ReadOwn(file string) (*Experiment, error) {
	var own ownFile
	f, err := yamlfile.Read(file, &own)
	if os.IsNotExist(err) {
		return nil, &yamlfile.Error{File: file, What: "no such file"}
	}
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	e := &own.Experiment
	e.Dir, e.Name = dir, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if err := e.check(f.In("$.experiment")); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(own.Contenders)) {
		spec := own.Contenders[name]
		if !slices.Contains(e.Contenders(), name) {
			return nil, f.Fault("$.contenders."+name, "contender %q is not among the experiment's ways", name)
		}
		if spec == nil {
			return nil, f.Fault("$.contenders."+name, "contender %q is empty", name)
		}
		spec.Name = name
		spec.Fit(dir)
		if err := spec.Check(f.In("$.contenders." + name)); err != nil {
			return nil, err
		}
		e.Specs = append(e.Specs, spec)
	}
	for _, name := range e.Contenders() {
		if _, ok := own.Contenders[name]; !ok {
			return nil, f.Fault("$.contenders", "contender %q is missing", name)
		}
	}
	return e, nil
}

// ownSource is the template of an ownFile.
//
//go:embed own.yaml.tmpl
var ownSource string

// Write writes the experiment in the form that ReadOwn reads, with comments for the user. Every
// contender of the experiment must have its Spec. dir is the absolute folder of the file, and
// command the command line that runs it.
func (e *Experiment) Write(w io.Writer, dir, command string) error {
	t, err := template.New("own.yaml").Funcs(template.FuncMap{
		"text": func(v any) (string, error) { // a text or a list as YAML, on one line
			b, err := yaml.MarshalWithOptions(v, yaml.JSON())
			return strings.TrimSpace(string(b)), err
		},
		"duration": func(d yamlfile.Duration) string { return time.Duration(d).String() },
		"from":     func(folder string) (string, error) { return filepath.Rel(dir, folder) },
	}).Parse(ownSource)
	if err != nil {
		panic(fmt.Sprintf("lab: BUG: %v", err))
	}
	return t.Execute(w, struct {
		*Experiment
		Command string
	}{e, command})
}

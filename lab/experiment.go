package lab

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/lab/yamlfile"
)

// ExperimentFile is the file that makes a folder an experiment.
const ExperimentFile = "experiment.yaml"

// Experiment is an experiment.yaml: what is compared, and how.
type Experiment struct {
	Name string `yaml:"-"` // the folder's
	Dir  string `yaml:"-"`

	Title    string `yaml:"title"`
	Question string `yaml:"question"`
	Source   string `yaml:"source"` // whose measurement it repeats

	Request struct {
		Method string `yaml:"method"`
		Path   string `yaml:"path"`  // with expressions, as load.Plan has them, each request has another
		Asked  string `yaml:"asked"` // then, what is asked before any load
		Host   string `yaml:"host"`
	} `yaml:"request"`
	Load   Load        `yaml:"load"`
	Expect Expectation `yaml:"expect"`

	Control string    `yaml:"control"`
	Build   string    `yaml:"build"` // another build of the control, to be compared with it
	Ways    []string  `yaml:"ways"`
	Rivals  []string  `yaml:"rivals"`
	Ceiling string    `yaml:"ceiling"`
	Differs []Differ  `yaml:"differs"`
	Compare []Compare `yaml:"compare"`
	Small   int       `yaml:"small_files"` // in the folder that is served
	Nginx   string    `yaml:"nginx"`       // a template of contender.NginxConf; "" is ours
	Kernel  string    `yaml:"kernel"`      // a file of kernel settings like sysctl.conf, the write-up's; "" if it tells none

	Quick Trials `yaml:"quick"`
	Full  Trials `yaml:"full"`

	Sweeps []Sweep `yaml:"sweeps"` // carried out when they are asked for, and with the full trials

	Published Published `yaml:"published"`
}

// Expectation is what every contender must answer.
type Expectation struct {
	By     string `yaml:"by"` // what it is judged by: one of those below, or "" for what stands here
	Status int    `yaml:"status"`
	Body   string `yaml:"body"`
	SHA256 string `yaml:"sha256"` // of the body, in hexadecimal digits, in its place
	MD5    string `yaml:"md5"`    // likewise
	Bytes  int    `yaml:"bytes"`  // of the whole response; 0 is any

	BodyFile string `yaml:"body_file"` // that holds the body, in its place; beside the experiment's file
}

// What an answer may be judged by, besides values that are known before.
const (
	ByControl = "control" // what the control answers, with a status below 400
	ByStatus  = "status"  // the status alone: bodies may be any
)

// Differ is a difference between answers that the experiment declares.
type Differ struct {
	What       string   `yaml:"what"`       // as equal.Difference names it, or "fields" for any of the head's
	Contenders []string `yaml:"contenders"` // whose; none means everybody's
	Why        string   `yaml:"why"`
}

// Compare names two contenders that differ in one part, which the report then says the cost of.
type Compare struct {
	What string `yaml:"what"` // the part, as the subject of a sentence
	Of   string `yaml:"of"`
	Than string `yaml:"than"`
}

// Trials says how many trials there are, how long, and under which conditions.
type Trials struct {
	Blocks      int               `yaml:"blocks"`
	Warmup      yamlfile.Duration `yaml:"warmup"`
	Measure     yamlfile.Duration `yaml:"measure"`
	Cores       []Cores           `yaml:"cores"`
	Connections []int             `yaml:"connections"`
	Rate        Rate              `yaml:"rate"` // for more trials, at a fixed rate
}

// Cores is a number of processors, or 0 for "all".
type Cores int

func (c Cores) String() string {
	if c == 0 {
		return "all"
	}
	return strconv.Itoa(int(c))
}

// ParseCores reads a number of processors, or "all".
func ParseCores(text string) (Cores, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of cores or all, got %q", text)
	}
	return Cores(n), nil
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *Cores) UnmarshalYAML(n ast.Node) error {
	t := n.GetToken()
	parsed, err := ParseCores(t.Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: t}
	}
	*c = parsed
	return nil
}

// Conditions returns every combination of cores and connections.
func (t *Trials) Conditions() (all []trial.Condition) {
	for _, cores := range t.Cores {
		for _, n := range t.Connections {
			all = append(all, trial.Condition{Cores: int(cores), Connections: n})
		}
	}
	return all
}

// fit leaves out what needs more processors than there are, and returns that. If
// nothing would be left, nothing is left out.
func (t *Trials) fit(cpus int) (left []Cores) {
	tooMany := func(c Cores) bool { return int(c) > cpus }
	if !slices.ContainsFunc(t.Cores, func(c Cores) bool { return !tooMany(c) }) {
		return nil
	}
	for _, c := range t.Cores {
		if tooMany(c) {
			left = append(left, c)
		}
	}
	t.Cores = slices.DeleteFunc(slices.Clone(t.Cores), tooMany)
	return left
}

// Published says where the write-up's figures are and what they are called there.
type Published struct {
	File       string            `yaml:"file"`
	Group      string            `yaml:"group"` // the column that sets apart what must not be compared
	Name       string            `yaml:"name"`  // the column that names the contender
	Rate       string            `yaml:"rate"`  // the column of requests per second
	Control    string            `yaml:"control"`
	Contenders map[string]string `yaml:"contenders"` // their names to ours
	Lines      map[string]int    `yaml:"lines"`      // of applications' sources, by their names, if it tells them
}

// Contenders returns the names of all contenders, the control first.
func (e *Experiment) Contenders() []string {
	all := []string{e.Control}
	for _, name := range slices.Concat([]string{e.Build}, e.Ways, e.Rivals, []string{e.Ceiling}) {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// ReadExperiment reads the experiment in a folder. What is wrong with its file is a
// *yamlfile.Error.
func ReadExperiment(dir string) (*Experiment, error) {
	e := &Experiment{Name: filepath.Base(dir), Dir: dir}
	file := filepath.Join(dir, ExperimentFile)
	f, err := yamlfile.Read(file, e)
	if os.IsNotExist(err) {
		return nil, &yamlfile.Error{File: file, What: "no such experiment; --list names those there are"}
	}
	if err != nil {
		return nil, err
	}
	return e, e.check(f)
}

func (e *Experiment) check(f *yamlfile.File) error {
	switch {
	case e.Title == "":
		return f.Fault("$.title", "title is missing")
	case e.Control == "":
		return f.Fault("$.control", "control is missing: ratios refer to it")
	case !slices.Contains(e.Ways, e.Control):
		return f.Fault("$.control", "control %q is not one of the ways", e.Control)
	case e.Request.Method == "" || e.Request.Path == "" || e.Request.Host == "":
		return f.Fault("$.request", "request: want method, path and host")
	case e.Request.Asked == "" == strings.Contains(e.Request.Path, "{{"):
		return f.Fault("$.request", "request: want asked, one path of them all, if there are expressions in path, and else not")
	case e.Small < 0 || e.Small > maxSmallFiles:
		return f.Fault("$.small_files", "small_files: want 0 to %d, got %d", maxSmallFiles, e.Small)
	}
	if err := cmp.Or(e.Load.check(f), e.Expect.readBody(e.Dir, f), e.Expect.check(f)); err != nil {
		return err
	}
	for i, d := range e.Differs {
		for j, name := range d.Contenders {
			if !slices.Contains(e.Contenders(), name) {
				return f.Fault(fmt.Sprintf("$.differs[%d].contenders[%d]", i, j), "%q takes no part", name)
			}
		}
		if d.What == "" || d.Why == "" {
			return f.Fault(fmt.Sprintf("$.differs[%d]", i), "differs: want what and why")
		}
	}
	for i, c := range e.Compare {
		for _, side := range []struct{ key, name string }{{"of", c.Of}, {"than", c.Than}} {
			if !slices.Contains(e.Contenders(), side.name) {
				return f.Fault(fmt.Sprintf("$.compare[%d].%s", i, side.key), "%q takes no part", side.name)
			}
		}
		if c.What == "" {
			return f.Fault(fmt.Sprintf("$.compare[%d]", i), "compare: want what, of and than")
		}
	}
	for _, t := range []struct {
		key string
		*Trials
	}{{"quick", &e.Quick}, {"full", &e.Full}} {
		if fault := t.fault(); fault != nil {
			return f.Fault("$."+t.key+"."+fault.path(), "%s: %s", fault.key, fault.what)
		}
	}
	for i := range e.Sweeps {
		if err := e.Sweeps[i].check(f, fmt.Sprintf("$.sweeps[%d]", i), e.Contenders()); err != nil {
			return err
		}
	}
	for _, theirs := range slices.Sorted(maps.Keys(e.Published.Contenders)) {
		ours := e.Published.Contenders[theirs]
		if !slices.Contains(e.Contenders(), ours) {
			return f.Fault("$.published.contenders", "published: %q is said to be our %q, which takes no part", theirs, ours)
		}
	}
	for _, theirs := range slices.Sorted(maps.Keys(e.Published.Lines)) {
		if e.Published.Contenders[theirs] == "" || e.Published.Lines[theirs] < 1 {
			return f.Fault("$.published.lines", "published: lines: want one of its contenders and a number above 0, got %q: %d", theirs, e.Published.Lines[theirs])
		}
	}
	return nil
}

// trialsFault is a value in Trials that makes no sense.
type trialsFault struct {
	key  string // in the file; the flag has the same name
	item int    // which of a list's, from 0; -1 if it is not one of them
	what string
}

func (x *trialsFault) path() string {
	if x.item < 0 {
		return x.key
	}
	return fmt.Sprintf("%s[%d]", x.key, x.item)
}

// fault returns the first value that makes no sense, or nil.
func (t *Trials) fault() *trialsFault {
	fault := func(key string, item int, format string, args ...any) *trialsFault {
		return &trialsFault{key, item, fmt.Sprintf(format, args...)}
	}
	switch {
	case t.Blocks < 1 || t.Blocks > maxBlocks:
		return fault("blocks", -1, "want 1 to %d, got %d", maxBlocks, t.Blocks)
	case t.Warmup < 0:
		return fault("warmup", -1, "want 0s or more, got %v", time.Duration(t.Warmup))
	case time.Duration(t.Measure) < minMeasure:
		return fault("measure", -1, "want at least %v, got %v", minMeasure, time.Duration(t.Measure))
	case len(t.Cores) == 0:
		return fault("cores", -1, "want at least one number of cores, or all")
	case len(t.Connections) == 0:
		return fault("connections", -1, "want at least one number of connections")
	case t.Rate.Share < 0 || t.Rate.Share >= 1:
		return fault("rate", -1, "want a share above 0 and below 1, got %v", t.Rate.Share)
	case t.Rate.Measure != 0 && time.Duration(t.Rate.Measure) < minMeasure:
		return fault("rate", -1, "measure: want at least %v, got %v", minMeasure, time.Duration(t.Rate.Measure))
	}
	for i, n := range t.Cores {
		if slices.Contains(t.Cores[:i], n) {
			return fault("cores", i, "%v stands twice", n)
		}
	}
	for i, n := range t.Connections {
		if n < 1 || n > maxConnections {
			return fault("connections", i, "want 1 to %d, got %d", maxConnections, n)
		}
		if slices.Contains(t.Connections[:i], n) {
			return fault("connections", i, "%d stands twice", n)
		}
	}
	return nil
}

// Bounds on what an experiment may ask for. A trial shorter than minMeasure has too
// few clock ticks to split user from system time; more blocks than maxBlocks can
// only be a slip.
const (
	maxBlocks      = 10_000
	minMeasure     = 200 * time.Millisecond
	maxConnections = 18_000
	maxSmallFiles  = 100_000
)

func (e *Experiment) request() equal.Request {
	return equal.Request{
		Method: e.Request.Method, Path: cmp.Or(e.Request.Asked, e.Request.Path), Host: e.Request.Host,
		Version: e.Load.Version, Header: e.Load.Header, PerConnection: e.Load.PerConnection,
	}
}

// nginxConf is the configuration of the fronts: the experiment's, or ours.
func (e *Experiment) nginxConf() (*template.Template, error) {
	if e.Nginx == "" {
		return contender.NewNginxConf("nginx.conf", ownNginxConf)
	}
	file := filepath.Join(e.Dir, e.Nginx)
	t, err := contender.ParseNginxConf(file)
	if err != nil {
		return nil, &yamlfile.Error{File: file, What: err.Error()}
	}
	return t, nil
}

// lines are those that the write-up published of its counterpart of a contender; 0 if it did not.
func (p *Published) lines(contender string) int {
	for theirs, n := range p.Lines {
		if p.Contenders[theirs] == contender {
			return n
		}
	}
	return 0
}

// publishedRates reads the write-up's figures.
func (e *Experiment) publishedRates() ([]report.Published, error) {
	p := e.Published
	if p.File == "" {
		return nil, nil
	}
	file := filepath.Join(e.Dir, p.File)
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, &yamlfile.Error{File: file, What: err.Error()}
	}
	if len(rows) < 2 {
		return nil, &yamlfile.Error{File: file, What: "no rows"}
	}
	group, name, rate := slices.Index(rows[0], p.Group), slices.Index(rows[0], p.Name), slices.Index(rows[0], p.Rate)
	if min(group, name, rate) < 0 {
		return nil, &yamlfile.Error{File: file, Line: 1, What: fmt.Sprintf("want columns %q, %q and %q", p.Group, p.Name, p.Rate)}
	}
	var rates []report.Published
	control := make(map[string]float64)
	for i, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[rate], 64)
		if err != nil {
			return nil, &yamlfile.Error{File: file, Line: i + 2, What: err.Error()}
		}
		g := p.Group + " " + row[group]
		if row[name] == p.Control {
			control[g] = v
		}
		if ours, ok := p.Contenders[row[name]]; ok {
			rates = append(rates, report.Published{Group: g, Theirs: row[name], Contender: ours, PerSecond: v})
		}
	}
	for i := range rates {
		c := control[rates[i].Group]
		if c == 0 {
			return nil, &yamlfile.Error{File: file, What: fmt.Sprintf("%q has no row of %q", rates[i].Group, p.Control)}
		}
		rates[i].Ratio = rates[i].PerSecond / c
	}
	return rates, nil
}

// Experiments returns the names of the experiments in a folder.
func Experiments(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", ExperimentFile))
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(filepath.Dir(f))
	}
	return names, err
}

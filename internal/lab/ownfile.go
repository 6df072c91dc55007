package lab

import (
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
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// ownFile is a file that holds an experiment and its contenders.
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
		"text":     yamlText,
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

// yamlText returns a text or a list in YAML, on one line.
func yamlText(v any) (string, error) {
	b, err := yaml.MarshalWithOptions(v, yaml.JSON())
	return strings.TrimSpace(string(b)), err
}

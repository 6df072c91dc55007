package lab

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Variant is a contender of one experiment: another contender with other settings of the
// experiment's nginx.conf.
type Variant struct {
	Of    string            `yaml:"of"` // its name in contenders/
	Title string            `yaml:"title"`
	About string            `yaml:"about"`
	Set   map[string]string `yaml:"set"`
}

// Spec returns a contender of the experiment: one of Specs, a variant, or one of the folder dir.
func (e *Experiment) Spec(dir, name string) (*contender.Spec, error) {
	if i := slices.IndexFunc(e.Specs, func(s *contender.Spec) bool { return s.Name == name }); i >= 0 {
		return e.Specs[i], nil
	}
	v, isVariant := e.Variants[name]
	found, err := contender.Find(dir, cmp.Or(v.Of, name))
	if err != nil {
		return nil, err
	}
	is := *found
	if is.Server != "" && is.Front != "" {
		is.About += ", " + cmp.Or(e.Upstream, "with keep-alive connections")
	}
	if isVariant {
		is.Name, is.Title, is.About = name, v.Title, cmp.Or(v.About, is.About)
		is.Server = cmp.Or(is.Server, found.Name)
		is.Set = make(map[string]string) // other contenders may have that of found
		maps.Copy(is.Set, found.Set)
		maps.Copy(is.Set, v.Set)
	}
	return &is, nil
}

func (w *runner) spec(name string) (*contender.Spec, error) {
	return w.experiment.Spec(filepath.Join(w.Root, "contenders"), name)
}

// checkVariants returns a *yamlfile.Error for the first invalid variant.
func (e *Experiment) checkVariants(f *yamlfile.File) error {
	for _, name := range slices.Sorted(maps.Keys(e.Variants)) {
		switch v := e.Variants[name]; {
		case !slices.Contains(e.Contenders(), name):
			return f.Fault("$.variants."+name, "variants: %q is not a contender of the experiment", name)
		case v.Of == "" || v.Title == "" || len(v.Set) == 0:
			return f.Fault("$.variants."+name, "variants: want of, title and set")
		}
	}
	return nil
}

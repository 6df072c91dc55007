// Package exposition writes metrics in Prometheus' text format.
package exposition

import (
	"fmt"
	"strconv"
	"strings"
)

// Page is a page in Prometheus' text format 0.0.4. Labels come from the Config and never from
// clients, so that their number is bounded.
type Page struct {
	families []*family
	byName   map[string]*family
}

type family struct {
	name, help string
	kind       metricKind
	samples    []byte
}

type metricKind string

const (
	Counter metricKind = "counter"
	Gauge   metricKind = "gauge"
)

// Add adds a sample. labels are pairs of name and value.
func (e *Page) Add(name string, kind metricKind, help string, value int64, labels ...string) {
	e.family(name, kind, help).addSample(name, strconv.FormatInt(value, 10), labels)
}

func (e *Page) family(name string, kind metricKind, help string) *family {
	f := e.byName[name]
	if f == nil {
		f = &family{name: name, help: help, kind: kind}
		if e.byName == nil {
			e.byName = make(map[string]*family)
		}
		e.byName[name] = f
		e.families = append(e.families, f)
	}
	return f
}

func (f *family) addSample(name, value string, labels []string) {
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escapeLabel(labels[i+1])+`"`)
	}
	if pairs != nil {
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	f.samples = fmt.Appendf(f.samples, "%s %s\n", name, value)
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}

// Text returns the text, metric by metric.
func (e *Page) Text() []byte {
	var b []byte
	for _, f := range e.families {
		b = append(b, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+string(f.kind)+"\n"...)
		b = append(b, f.samples...)
	}
	return b
}

// Package exposition writes metrics in Prometheus' text format.
package exposition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
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

// numBounds is the number of bounds of histograms.
const numBounds = 12

// durationBounds returns the upper bounds of a histogram's buckets.
func durationBounds() [numBounds]time.Duration {
	return [...]time.Duration{
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
		2500 * time.Millisecond, 10 * time.Second,
	}
}

// Histogram counts durations.
type Histogram struct {
	buckets [numBounds + 1]atomic.Int64 // each without those before it
	sum     atomic.Int64                // in nanoseconds
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i := 0
	for _, bound := range durationBounds() {
		if d <= bound {
			break
		}
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// AddHistogram adds the samples of a histogram. labels are pairs of name and value.
func (e *Page) AddHistogram(name, help string, h *Histogram, labels ...string) {
	f := e.family(name, "histogram", help)
	bucket := append(slices.Clip(labels), "le", "")
	total, bounds := int64(0), durationBounds()
	for i := range h.buckets {
		total += h.buckets[i].Load()
		if bucket[len(bucket)-1] = "+Inf"; i < numBounds {
			bucket[len(bucket)-1] = formatSeconds(bounds[i])
		}
		f.addSample(name+"_bucket", strconv.FormatInt(total, 10), bucket)
	}
	f.addSample(name+"_sum", formatSeconds(time.Duration(h.sum.Load())), labels)
	f.addSample(name+"_count", strconv.FormatInt(total, 10), labels)
}

func formatSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

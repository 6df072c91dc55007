// Package report writes the measurements of a run of the generator. Text and an HTML page are for
// people; CSV, an HDR histogram log and Go's benchmark format are for other tools.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// Run is a run of the generator with its circumstances. Its JSON is that of the Result with one
// more object, "run".
type Run struct {
	load.Result
	About About `json:"run"`
}

// About holds the circumstances of a run.
type About struct {
	Started time.Time         `json:"started"` // when measuring began
	Tool    string            `json:"tool"`    // the version of tare
	Flags   map[string]string `json:"flags"`   // values of the command line's flags, by name
	Machine Machine           `json:"machine"` // where the generator ran
}

// Machine is a computer.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memoryBytes"`
	Kernel string `json:"kernel"`
}

// Read reads the JSON of a run.
func Read(in io.Reader) (*Run, error) {
	r := new(Run)
	if err := json.NewDecoder(in).Decode(r); err != nil {
		return nil, fmt.Errorf("invalid JSON of a run: %w", err)
	}
	if r.Latency == nil || r.Latency.Count() == 0 || r.Seconds <= 0 || r.Requests == 0 {
		return nil, errors.New("the JSON holds no run with a response")
	}
	for _, h := range []**hist.Histogram{&r.Service, &r.FirstByte, &r.Connect} {
		if *h == nil {
			*h = hist.New()
		}
	}
	return r, nil
}

// Open reports whether the run was an open loop.
func (r *Run) Open() bool { return r.Due > 0 || r.Generator.Lag != nil }

// SecondLength returns the length of entry i of the timeline, in seconds. The last one lasts until
// the end of the run.
func (r *Run) SecondLength(i int) float64 {
	if i < len(r.Timeline)-1 {
		return 1
	}
	return max(r.Seconds-float64(i), 0.05)
}

func (r *Run) rates() []float64 {
	rates := make([]float64, len(r.Timeline))
	for i, s := range r.Timeline {
		rates[i] = float64(s.Requests) / r.SecondLength(i)
	}
	return rates
}

func (r *Run) perRequest(total float64) float64 {
	if r.Requests == 0 {
		return 0
	}
	return total / float64(r.Requests)
}

type statistic struct {
	name  string
	value time.Duration
}

func statistics(h *hist.Histogram) []statistic {
	return []statistic{
		{"mean", h.Mean()}, {"stdev", h.Stdev()}, {"min", h.Quantile(0)}, {"p50", h.Quantile(0.5)},
		{"p90", h.Quantile(0.9)}, {"p99", h.Quantile(0.99)}, {"p99.9", h.Quantile(0.999)}, {"max", h.Max()},
	}
}

// Times returns the run's distributions, in the order of a request's life. In a closed loop, a
// request is due when it is sent.
func (r *Run) Times() Table {
	head := []string{""}
	for _, s := range statistics(hist.New()) {
		head = append(head, s.name)
	}
	all := Table{head}
	add := func(name string, h *hist.Histogram) {
		if h == nil || h.Count() == 0 {
			return
		}
		row := []string{name}
		for _, s := range statistics(h) {
			row = append(row, Duration(s.value))
		}
		all = append(all, row)
	}
	add("connect", r.Connect)
	add("TLS handshake", r.Handshake)
	if r.Open() {
		add("sent late", r.Generator.Lag)
		add("first byte", r.FirstByte)
		add("since sent", r.Service)
		add("since due", r.Latency)
	} else {
		add("first byte", r.FirstByte)
		add("latency", r.Latency)
	}
	add("between events", r.BetweenEvents)
	return all
}

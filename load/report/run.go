// Package report says what a run of the generator measured: as text and as a page for people,
// and as CSV, an HDR histogram log and Go's benchmark format for other tools.
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

// Run is a run of the generator: what it measured, and in which circumstances. Its JSON is
// the result's with one more object, "run".
type Run struct {
	load.Result
	About About `json:"run"`
}

// About is what a result does not know of its run.
type About struct {
	Started time.Time         `json:"started"` // when measuring began
	Tool    string            `json:"tool"`    // the version of tare
	Flags   map[string]string `json:"flags"`   // what was asked for on the command line, by the flag's name
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
		return nil, fmt.Errorf("no JSON of a run: %w", err)
	}
	if r.Latency == nil || r.Latency.Count() == 0 || r.Seconds <= 0 || r.Requests == 0 {
		return nil, errors.New("no JSON of a run that has measured something; tare load --json writes one")
	}
	for _, h := range []**hist.Histogram{&r.Service, &r.FirstByte, &r.Connect} {
		if *h == nil {
			*h = hist.New()
		}
	}
	return r, nil
}

// open reports whether requests were due at times of their own.
func (r *Run) open() bool { return r.Asked > 0 }

// SecondLength returns how many seconds entry i of the timeline is long: the last one lasts until
// the end.
func (r *Run) SecondLength(i int) float64 {
	if i < len(r.Timeline)-1 {
		return 1
	}
	return max(r.Seconds-float64(i), 0.05)
}

// rates are the requests of each second, per second.
func (r *Run) rates() []float64 {
	rates := make([]float64, len(r.Timeline))
	for i, s := range r.Timeline {
		rates[i] = float64(s.Requests) / r.SecondLength(i)
	}
	return rates
}

// perRequest divides by the number of requests.
func (r *Run) perRequest(total float64) float64 {
	if r.Requests == 0 {
		return 0
	}
	return total / float64(r.Requests)
}

// Times is a distribution of times with its name.
type Times struct {
	Name string
	*hist.Histogram
}

// Times are the distributions that a run has, in the order in which they follow each other in
// a request's life. In a closed loop a request is due when it is sent.
func (r *Run) Times() (all []Times) {
	add := func(name string, h *hist.Histogram) {
		if h != nil && h.Count() > 0 {
			all = append(all, Times{name, h})
		}
	}
	add("connect", r.Connect)
	add("TLS handshake", r.Handshake)
	if r.open() {
		add("sent late", r.Generator.Lag)
		add("first byte", r.FirstByte)
		add("since sent", r.Service)
		add("since due", r.Latency)
		return all
	}
	add("first byte", r.FirstByte)
	add("latency", r.Latency)
	return all
}

// errorKinds are the errors by kind, those that there were.
func errorKinds(e *load.Errors) (kinds []kindCount) {
	for _, k := range []kindCount{
		{"connect", e.Connect}, {"read", e.Read}, {"write", e.Write}, {"timeout", e.Timeout},
		{"status", e.Status}, {"body", e.Body}, {"header", e.Header},
	} {
		if k.Count > 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// kindCount is how many there were of a kind.
type kindCount struct {
	Name  string
	Count uint64
}

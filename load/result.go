package load

import (
	"cmp"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Result is what a run measured.
type Result struct {
	URL         string          `json:"url"`
	Connections int             `json:"connections"`
	Threads     int             `json:"threads"`
	Seconds     float64         `json:"seconds"` // measured
	Requests    uint64          `json:"requests"`
	Bytes       uint64          `json:"bytes"` // received, heads included
	Statuses    map[int]uint64  `json:"statuses"`
	Errors      Errors          `json:"errors"`
	Connects    uint64          `json:"connects"` // connections made while measuring
	Opened      uint64          `json:"opened"`   // connections made before
	Latency     *hist.Histogram `json:"latency"`
	Timeline    []Second        `json:"timeline"`
	Generator   Generator       `json:"generator"`
	FastCGI     *FastCGI        `json:"fastCGI,omitempty"` // nil unless that was spoken
}

// Errors counts what went wrong while measuring, by kind.
type Errors struct {
	Connect uint64 `json:"connect"` // no connection was made
	Read    uint64 `json:"read"`    // the connection ended, or brought what is no response, or a refusal
	Write   uint64 `json:"write"`   // the request could not be sent
	Timeout uint64 `json:"timeout"` // no connection or response in time
	Status  uint64 `json:"status"`  // responses of status 400 and above

	// First is the text of the first error, which may be one from before measuring.
	First string `json:"first,omitempty"`
}

// Total returns the number of errors of all kinds.
func (e Errors) Total() uint64 { return e.Connect + e.Read + e.Write + e.Timeout + e.Status }

func (e *Errors) merge(o Errors) {
	e.Connect += o.Connect
	e.Read += o.Read
	e.Write += o.Write
	e.Timeout += o.Timeout
	e.Status += o.Status
	if e.First == "" {
		e.First = o.First
	}
}

// Second is one second of the measured time; the last one may be shorter.
type Second struct {
	Requests   uint64        `json:"requests"`
	Bytes      uint64        `json:"bytes"`
	Errors     uint64        `json:"errors"`
	LatencySum time.Duration `json:"latencySumNs"`
	LatencyMax time.Duration `json:"latencyMaxNs"`
}

// Generator is what generating the load cost, in the measured time.
type Generator struct {
	UserSeconds float64 `json:"userSeconds"`
	SysSeconds  float64 `json:"sysSeconds"`
	// Busy is the busiest thread's share of one processor, 0 to 1. Near 1 the
	// generator, not the server, may have set the pace.
	Busy float64 `json:"busy"`
}

// PerSecond returns the rate of requests.
func (r *Result) PerSecond() float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

// PerCPUSecond returns how many requests a second of the generator's processor time
// was enough for.
func (r *Result) PerCPUSecond() float64 {
	cpu := r.Generator.UserSeconds + r.Generator.SysSeconds
	if cpu == 0 {
		return 0
	}
	return float64(r.Requests) / cpu
}

// tally is what one worker counts. Only its worker touches it until the end.
type tally struct {
	counting                          bool // the phase is measuring
	requests, bytes, connects, opened uint64
	statuses                          [1000]uint64 // by status code
	errors                            Errors
	latency                           *hist.Histogram
	timeline                          []Second
	user, sys                         time.Duration
	fastCGI                           *FastCGI // nil unless that is spoken
}

func (r *Result) add(t *tally) {
	r.Requests += t.requests
	r.Bytes += t.bytes
	r.Connects += t.connects
	r.Opened += t.opened
	r.Errors.merge(t.errors)
	r.Latency.Merge(t.latency)
	for code, n := range t.statuses {
		if n > 0 {
			r.Statuses[code] += n
		}
	}
	for i, s := range t.timeline {
		if i == len(r.Timeline) {
			r.Timeline = append(r.Timeline, Second{})
		}
		r.Timeline[i].add(s)
	}
	if t.fastCGI != nil {
		r.FastCGI = cmp.Or(r.FastCGI, new(FastCGI))
		r.FastCGI.merge(t.fastCGI)
	}
	r.Generator.UserSeconds += t.user.Seconds()
	r.Generator.SysSeconds += t.sys.Seconds()
	if r.Seconds > 0 {
		r.Generator.Busy = max(r.Generator.Busy, (t.user+t.sys).Seconds()/r.Seconds)
	}
}

// shortTail is a part of a second too short to tell a rate by.
const shortTail = 0.1

// foldTail adds what the timeline has after the last second of the measured time to
// that second. A part of a second counts as one if it is longer than shortTail.
func (r *Result) foldTail() {
	whole := int(r.Seconds)
	if r.Seconds-float64(whole) > shortTail {
		whole++
	}
	for whole > 0 && len(r.Timeline) > whole {
		tail, last := r.Timeline[len(r.Timeline)-1], &r.Timeline[len(r.Timeline)-2]
		r.Timeline = r.Timeline[:len(r.Timeline)-1]
		last.add(tail)
	}
}

func (s *Second) add(o Second) {
	s.Requests += o.Requests
	s.Bytes += o.Bytes
	s.Errors += o.Errors
	s.LatencySum += o.LatencySum
	s.LatencyMax = max(s.LatencyMax, o.LatencyMax)
}

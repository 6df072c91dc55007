package sample

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Metric names a figure of a record.
type Metric string

// The metrics of every timed trial under load, by their names in bounds.
const (
	CPU    Metric = "cpu"    // CPU time per request of all server processes, in µs
	Rate   Metric = "rps"    // requests per second
	P50    Metric = "p50"    // median latency, in seconds
	P99    Metric = "p99"    // latency that 1 % of requests exceed, in seconds
	Errors Metric = "errors" // requests without a response, or with a status of 400 or above
)

// More metrics, by their names in targets. A target may also name another percentile of latency,
// such as p90 or p99.9, or the unit of a Go benchmark's figure, such as ns/op.
const (
	ApplicationCPU Metric = "application cpu" // as CPU, of the application alone
	FrontCPU       Metric = "front cpu"       // as CPU, of nginx or another front alone
	Bytes          Metric = "bytes/cpu-s"     // bytes received by clients per second of CPU time
	Memory         Metric = "bytes/conn"      // resident memory that an idle connection adds
	Resting        Metric = "resting cpu"     // share of a CPU with idle connections, in percent
	Calls          Metric = "calls"           // system calls of the application per request
	Transfers      Metric = "transfers"       // those that read or write
)

// Metrics returns the metrics of timed trials in display order.
func Metrics() []Metric { return []Metric{CPU, Rate, P50, P99, Errors} }

// IsCounted reports whether the kernel counts the metric in a trial of its own.
func (m Metric) IsCounted() bool { return m == Calls || m == Transfers }

// IsKnown reports whether records of trials under load can have the metric.
func (m Metric) IsKnown() bool {
	_, isPercentile := m.percentile()
	return isPercentile || slices.Contains(TargetMetrics(), m)
}

// TargetMetrics returns the metrics of targets of trials under load. Percentiles have names, too.
func TargetMetrics() []Metric {
	return append(Metrics(), ApplicationCPU, FrontCPU, Bytes, Memory, Resting, Calls, Transfers)
}

// percentile returns the share of requests whose latency is at most that of the metric.
func (m Metric) percentile() (share float64, ok bool) {
	digits, ok := strings.CutPrefix(string(m), "p")
	percent, err := strconv.ParseFloat(digits, 64)
	return percent / 100, ok && err == nil && percent > 0 && percent < 100
}

// Latency reports whether the metric is a percentile of latency.
func (m Metric) Latency() bool {
	_, ok := m.percentile()
	return ok
}

// Of returns the figure of a record; NaN if the record does not have it.
func (m Metric) Of(r *Record) float64 {
	if v, ok := r.Values[string(m)]; ok {
		return v
	}
	if share, ok := m.percentile(); ok {
		return r.Load.Latency.Quantile(share).Seconds()
	}
	switch m {
	case CPU:
		return r.WeightUs()
	case ApplicationCPU:
		return r.PerRequest(contender.RoleApplication, cpu) / 1e3
	case FrontCPU:
		return (r.PerRequest(contender.RoleNginx, cpu) + r.PerRequest(contender.RoleFront, cpu)) / 1e3
	case Rate:
		return r.Load.PerSecond()
	case Bytes:
		return float64(r.Load.Bytes) / float64(max(1, r.Load.Requests)) / r.WeightUs() * 1e6
	case Errors:
		return float64(r.Load.Errors.Total())
	case Memory:
		if r.Idle != nil {
			return float64(r.Idle.With-r.Idle.Before) / float64(r.Connections)
		}
	case Resting:
		if r.Idle != nil {
			return 100 * r.Asleep.Share()
		}
	case Calls, Transfers:
		return r.callsPerRequest(m == Transfers)
	}
	return math.NaN()
}

// Idle is the memory of a contender with idle connections, each of which carried one request.
type Idle struct {
	Before int64 `json:"bytesBefore"` // resident bytes before the connections were opened
	With   int64 `json:"bytesWith"`   // with them
}

// callsPerRequest returns the application's system calls per request, or those that read or write.
func (r *Record) callsPerRequest(transfers bool) float64 {
	if r.Attribution == nil || r.Attribution.Calls == nil {
		return math.NaN()
	}
	moving := []string{"read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg"}
	total := 0.0
	for name, n := range r.Attribution.Calls[contender.RoleApplication] {
		if !transfers || slices.Contains(moving, name) {
			total += float64(n)
		}
	}
	return total / float64(max(1, r.Load.Requests))
}

// Target is a limit of a contender's figure, or of its ratio to another contender's figure.
type Target struct {
	Row       string `json:"row" yaml:"-"` // the scenario, or the benchmark
	Contender string `json:"contender" yaml:"contender"`
	Metric    Metric `json:"metric" yaml:"metric"`
	Reference string `json:"reference,omitempty" yaml:"reference"` // "" limits the figure itself

	Require Limit `json:"require,omitzero" yaml:"require"` // has to be met
	Aim     Limit `json:"aim,omitzero" yaml:"aim"`         // is intended; missing it is no fault
}

// Limit is the bound of a figure. The zero value is no bound.
type Limit struct {
	Value float64
	Least bool // the figure has to be at least Value; otherwise at most
}

// ParseLimit parses a limit such as "<= 1.05" or ">= 2".
func ParseLimit(text string) (l Limit, err error) {
	digits, isMost := strings.CutPrefix(text, "<=")
	if !isMost {
		digits, l.Least = strings.CutPrefix(text, ">=")
	}
	l.Value, err = strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !isMost && !l.Least || !(l.Value > 0) || math.IsInf(l.Value, 0) {
		return Limit{}, fmt.Errorf("%q: want <= or >= and a number above 0, such as \"<= 1.05\"", text)
	}
	return l, nil
}

// IsSet reports whether there is a limit.
func (l Limit) IsSet() bool { return l.Value > 0 }

// String returns the limit in the form of ParseLimit, or "" without a limit.
func (l Limit) String() string {
	switch {
	case !l.IsSet():
		return ""
	case l.Least:
		return fmt.Sprintf(">= %.4g", l.Value)
	}
	return fmt.Sprintf("<= %.4g", l.Value)
}

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (l *Limit) UnmarshalYAML(n ast.Node) error { return yamlfile.Scalar(n, l, ParseLimit) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLimit(string(text))
	return err
}

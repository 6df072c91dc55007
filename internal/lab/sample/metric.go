package sample

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
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
	Before int64         `json:"bytesBefore"` // resident bytes before the connections were opened
	With   int64         `json:"bytesWith"`   // with them
	After  time.Duration `json:"afterNs"`     // how long they had been idle
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

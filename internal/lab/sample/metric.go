package sample

// Metric names a figure that every record of a timed trial has.
type Metric string

// The metrics, by their names in bounds.
const (
	CPU    Metric = "cpu"    // CPU time per request of all server processes, in µs
	Rate   Metric = "rps"    // requests per second
	P50    Metric = "p50"    // median latency, in seconds
	P99    Metric = "p99"    // latency that 1 % of requests exceed, in seconds
	Errors Metric = "errors" // requests without a response, or with a status of 400 or above
)

// Metrics returns all metrics in display order.
func Metrics() []Metric { return []Metric{CPU, Rate, P50, P99, Errors} }

// Of returns the figure of a record.
func (m Metric) Of(r *Record) float64 {
	switch m {
	case CPU:
		return r.WeightUs()
	case Rate:
		return r.Load.PerSecond()
	case P50:
		return r.Load.Latency.Quantile(0.5).Seconds()
	case P99:
		return r.Load.Latency.Quantile(0.99).Seconds()
	}
	return float64(r.Load.Errors.Total())
}

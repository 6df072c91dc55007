package load

import (
	"cmp"
	"slices"
	"time"
)

// recordSample keeps a request's times if it is measured and Plan.Samples is not reached.
func (w *worker) recordSample(s *Sample) {
	if w.tally.counting && w.plan.Samples > 0 && w.run.sampleCount.Add(1) <= int64(w.plan.Samples) {
		w.tally.samples = append(w.tally.samples, *s)
	}
}

// sinceMeasuring converts a time on the worker's clock to one since measuring began; 0 stays 0.
func (w *worker) sinceMeasuring(ns int64) time.Duration {
	if ns == 0 {
		return 0
	}
	return time.Duration(ns - w.began)
}

// connNumber returns a connection's index among the Plan's connections.
func (w *worker) connNumber(id int) int32 { return int32(w.firstConn + id/w.job.connsPerBusy()) }

// sortSamples sorts the samples of several workers by when they ended.
func sortSamples(samples []Sample) {
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Done, b.Done) })
}

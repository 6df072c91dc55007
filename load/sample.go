package load

import (
	"cmp"
	"slices"
	"time"
)

// sample keeps a request's times, if it is measured and the plan wants more of them.
func (w *worker) recordSample(s *Sample) {
	if w.tally.counting && w.Samples > 0 && w.sampleCount.Add(1) <= int64(w.Samples) {
		w.tally.samples = append(w.tally.samples, *s)
	}
}

// at turns a time of the worker's clock into one since measuring began; 0 stays 0.
func (w *worker) sinceMeasuring(ns int64) time.Duration {
	if ns == 0 {
		return 0
	}
	return time.Duration(ns - w.began)
}

// number returns a connection's number among the plan's.
func (w *worker) connNumber(id int) int32 { return int32(w.firstConn + id/w.connsPerBusy()) }

// inOrder puts samples of several workers into the order in which they ended.
func sortSamples(samples []Sample) {
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Done, b.Done) })
}

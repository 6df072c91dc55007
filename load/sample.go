package load

import (
	"cmp"
	"slices"
	"time"
)

// recordSample adds the times of an exchange that has ended to s, and keeps it if it is measured and
// Plan.Samples is not reached.
func (w *worker) recordSample(id int, f *exchange, s Sample) {
	if !w.tally.counting || w.plan.Samples == 0 || w.run.sampleCount.Add(1) > int64(w.plan.Samples) {
		return
	}
	s.Connection = int32(w.firstConn + id/w.job.connsPerBusy())
	s.Connect, s.Due, s.Sent = f.connectTime, w.sinceMeasuring(f.due), w.sinceMeasuring(f.sent)
	s.First, s.Done = w.sinceMeasuring(f.firstByte), w.sinceMeasuring(w.now)
	w.tally.Samples = append(w.tally.Samples, s)
}

// sinceMeasuring converts a time on the worker's clock to one since measuring began; 0 stays 0.
func (w *worker) sinceMeasuring(ns int64) time.Duration {
	if ns == 0 {
		return 0
	}
	return time.Duration(ns - w.began)
}

func sortSamples(samples []Sample) {
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Done, b.Done) })
}

package exposition

import (
	"strconv"
	"sync/atomic"
	"time"
)

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
	bucket := append(labels[:len(labels):len(labels)], "le", "")
	total := int64(0)
	for i, bound := range durationBounds() {
		total += h.buckets[i].Load()
		bucket[len(bucket)-1] = formatSeconds(bound)
		f.addSample(name+"_bucket", strconv.FormatInt(total, 10), bucket)
	}
	total += h.buckets[numBounds].Load()
	bucket[len(bucket)-1] = "+Inf"
	f.addSample(name+"_bucket", strconv.FormatInt(total, 10), bucket)
	f.addSample(name+"_sum", formatSeconds(time.Duration(h.sum.Load())), labels)
	f.addSample(name+"_count", strconv.FormatInt(total, 10), labels)
}

func formatSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

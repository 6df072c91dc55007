package hist

import (
	"fmt"
	"iter"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Packed is a compact, read-only histogram of one or two kilobytes, for use in large numbers. The
// zero value is empty.
type Packed struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"meanNs"`
	P50   time.Duration `json:"p50Ns"`
	P99   time.Duration `json:"p99Ns"`
	Max   time.Duration `json:"maxNs"`
	// Encoded is the whole histogram in nanoseconds: HdrHistogram V2, compressed, in base64. It is
	// empty if only the figures above were kept.
	Encoded string `json:"hdrV2,omitempty"`
}

// Pack returns the compact form of h.
func (h *Histogram) Pack() (Packed, error) {
	b, err := h.counts.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return Packed{}, fmt.Errorf("hist: %w", err)
	}
	return Packed{h.Count(), h.Mean(), h.Quantile(0.5), h.Quantile(0.99), h.Max(), string(b)}, nil
}

// Unpack returns the histogram. It is empty if only the figures were kept.
func (p Packed) Unpack() (*Histogram, error) {
	h := New()
	if p.Encoded == "" {
		return h, nil
	}
	return h, h.decode(p.Encoded, p.Mean*time.Duration(p.Count), p.Max)
}

// All returns the recorded durations, rounded to the histogram's precision, in rising order, each
// with its count. A nil histogram, as in results of older versions, is empty.
func (h *Histogram) All() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		if h == nil {
			return
		}
		for _, bar := range h.counts.Distribution() {
			if bar.Count > 0 && !yield(min(time.Duration(bar.From+bar.To)/2, h.max), bar.Count) {
				return
			}
		}
	}
}

// Coarse returns a copy whose durations are rounded to 0.4 %, for files that are kept for long. Its
// JSON is a fifth as long. Sum and maximum stay exact.
func (h *Histogram) Coarse() *Histogram {
	c := New()
	for d, n := range h.All() {
		step := time.Duration(1)
		for d/step >= 128 {
			step *= 2
		}
		c.RecordN(d/step*step+step/2, n)
	}
	c.sum, c.max = h.sum, h.max
	return c
}

// Reset removes all durations and keeps the memory.
func (h *Histogram) Reset() {
	h.counts.Reset()
	h.sum, h.max = 0, 0
}

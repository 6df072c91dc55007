package hist

import (
	"fmt"
	"iter"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Packed is a histogram of which there are many: a kilobyte or two, that can be read but not
// added to. The zero value is of nothing.
type Packed struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"meanNs"`
	P50   time.Duration `json:"p50Ns"`
	P99   time.Duration `json:"p99Ns"`
	Max   time.Duration `json:"maxNs"`
	// Encoded is all of it: HdrHistogram V2, compressed, in base64, in nanoseconds. It is
	// empty if only the figures above were kept.
	Encoded string `json:"hdrV2,omitempty"`
}

// Pack returns what h holds.
func (h *Histogram) Pack() (Packed, error) {
	b, err := h.counts.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return Packed{}, fmt.Errorf("hist: %w", err)
	}
	return Packed{h.Count(), h.Mean(), h.Quantile(0.5), h.Quantile(0.99), h.Max(), string(b)}, nil
}

// Unpack returns what was packed; nothing if there was nothing, or only figures were kept.
func (p Packed) Unpack() (*Histogram, error) {
	h := New()
	if p.Encoded == "" {
		return h, nil
	}
	return h, h.decode(p.Encoded, p.Mean*time.Duration(p.Count), p.Max)
}

// All returns the durations that were recorded, rounded as the histogram keeps them, shortest
// first, each with how often. Nil, as in results of before there was that histogram, holds none.
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

// Reset forgets all that was recorded, and keeps the memory.
func (h *Histogram) Reset() {
	h.counts.Reset()
	h.sum, h.max = 0, 0
}

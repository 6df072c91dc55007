// Package hist records durations in histograms.
package hist

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Durations from one nanosecond to Longest are kept with three significant digits. Longer ones
// count as Longest.
const (
	Longest = 10 * time.Minute
	digits  = 3
)

// Histogram is a distribution of durations. Use New to create one.
type Histogram struct {
	counts *hdr.Histogram
	sum    time.Duration // exact, unlike counts
	max    time.Duration
}

// New returns an empty histogram. It takes about 250 KB.
func New() *Histogram { return &Histogram{counts: hdr.New(1, int64(Longest), digits)} }

// Record adds one duration. Negative ones count as 0.
func (h *Histogram) Record(d time.Duration) {
	h.RecordN(d, 1)
}

// RecordN adds a duration n times.
func (h *Histogram) RecordN(d time.Duration, n int64) {
	d = min(max(d, 0), Longest)
	h.sum += d * time.Duration(n)
	h.max = max(h.max, d)
	if err := h.counts.RecordValues(int64(d), n); err != nil {
		panic("hist: BUG: duration out of range: " + err.Error())
	}
}

// Merge adds the durations of o.
func (h *Histogram) Merge(o *Histogram) {
	if dropped := h.counts.Merge(o.counts); dropped != 0 {
		panic("hist: BUG: histograms of different shape")
	}
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.counts.TotalCount() }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean, exactly, or 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return h.sum / time.Duration(h.Count())
}

// Stdev returns the standard deviation.
func (h *Histogram) Stdev() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(math.Round(h.counts.StdDev()))
}

// Quantile returns the duration that a share q of the durations, from 0 to 1, do not exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	return min(time.Duration(h.counts.ValueAtPercentile(100*q)), h.max)
}

// stored is the JSON form of a histogram. It holds the counts in nanoseconds in the HdrHistogram V2
// format, compressed and in base64, which other HdrHistogram tools read.
type stored struct {
	Unit    string        `json:"unit"`
	Sum     time.Duration `json:"sumNs"`
	Max     time.Duration `json:"maxNs"`
	Encoded string        `json:"hdrV2"`

	// Percentiles are for readers without an HdrHistogram library, by percentage. They are not read.
	Percentiles map[string]time.Duration `json:"percentilesNs,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	b, err := h.counts.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("hist: %w", err)
	}
	percentiles := make(map[string]time.Duration)
	for _, percent := range []float64{50, 75, 90, 95, 99, 99.9} {
		if h.Count() > 0 {
			percentiles[strconv.FormatFloat(percent, 'f', -1, 64)] = h.Quantile(percent / 100)
		}
	}
	return json.Marshal(stored{"ns", h.sum, h.max, string(b), percentiles})
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	fresh := New()
	if err := fresh.decode(s.Encoded, s.Sum, s.Max); err != nil {
		return err
	}
	*h = *fresh
	return nil
}

// mostDecoded limits the durations of an encoded histogram: those of half a year at a million a
// second. A sum of thousands of decoded histograms then has no overflow.
const mostDecoded = 1 << 44

func (h *Histogram) decode(text string, sum, longest time.Duration) error {
	counts, err := hdr.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("hist: %w", err)
	}
	if n := counts.TotalCount(); n > mostDecoded {
		return fmt.Errorf("hist: %d durations: want at most %d", n, int64(mostDecoded))
	}
	if dropped := h.counts.Merge(counts); dropped != 0 {
		return fmt.Errorf("hist: %d of %d durations are outside 0 to %v", dropped, counts.TotalCount(), Longest)
	}
	h.sum, h.max = sum, longest
	return nil
}

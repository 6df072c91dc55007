package hist

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tarehq/tare/internal/testkit"
)

func TestQuantilesHaveThreeDigits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 20000)
	parts := []*Histogram{New(), New(), New()}
	var sum time.Duration
	for i := range all {
		all[i] = time.Duration(rnd.ExpFloat64() * 1e6)
		sum += all[i]
		parts[i%3].Record(all[i])
	}
	h := New()
	for _, p := range parts {
		h.Merge(p)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(1, int(math.Ceil(q*float64(len(all)))))-1]
		testkit.Between(t, h.Quantile(q), want*998/1000-1, want*1002/1000+1, "quantile", q)
	}
	coarse := h.Coarse()
	for _, q := range []float64{0.1, 0.5, 0.99, 1} {
		if got, want := coarse.Quantile(q), h.Quantile(q); math.Abs(float64(got)/float64(want)-1) > 0.01 {
			t.Errorf("quantile %v: %v if rounded, %v before", q, got, want)
		}
	}
	if coarse.Mean() != h.Mean() || coarse.Max() != h.Max() || coarse.Count() != h.Count() {
		t.Errorf("rounded: mean %v, max %v, count %d", coarse.Mean(), coarse.Max(), coarse.Count())
	}
	if h.Max() != all[len(all)-1] || h.Quantile(1) != h.Max() || h.Count() != 20000 || h.Mean() != sum/20000 {
		t.Errorf("max %v, count %d, mean %v", h.Max(), h.Count(), h.Mean())
	}
	testkit.Between(t, h.Stdev(), 980*time.Microsecond, 1020*time.Microsecond, "standard deviation of mean 1ms")
}

func TestHistogramRoundTripsThroughJSON(t *testing.T) {
	h := New()
	for _, d := range []time.Duration{-5, 0, 1, 12345, time.Second, 2 * time.Hour} {
		h.Record(d)
	}
	testkit.Equal(t, h.Max(), Longest, "max")
	b := testkit.Value(json.Marshal(h))(t)
	var back Histogram
	testkit.Must(t, json.Unmarshal(b, &back))
	if back.Count() != h.Count() || back.Mean() != h.Mean() || back.Max() != h.Max() ||
		back.Quantile(0.5) != h.Quantile(0.5) {
		t.Errorf("got %+v", back)
	}
	for _, bad := range []string{`{}`, `{"hdrV2":"AAAA"}`, `7`} {
		testkit.Error(t, json.Unmarshal([]byte(bad), new(Histogram)), "", bad)
	}
}

func TestEmptyHistogramIsZero(t *testing.T) {
	h := New()
	if h.Mean() != 0 || h.Stdev() != 0 || h.Quantile(0.5) != 0 || h.Max() != 0 {
		t.Error("an empty histogram is not all zeros")
	}
}

func BenchmarkRecord(b *testing.B) {
	h := New()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Record(time.Duration(100_000 + i%100_000))
	}
}

// A histogram of another process may hold any counts: their sum must not overflow.
func TestImpossibleCountsAreRejected(t *testing.T) {
	counts := hdr.New(1, 1e9, 3)
	testkit.Must(t, counts.RecordValues(5, math.MaxInt64))
	b := testkit.Value(counts.Encode(hdr.V2CompressedEncodingCookieBase))(t)
	testkit.Fails((Packed{Encoded: string(b)}).Unpack())(t, "want at most")
}

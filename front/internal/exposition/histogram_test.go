package exposition

import (
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A duration is counted in the buckets whose bounds it does not exceed.
func TestHistogramCountsDurations(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Second, time.Hour} {
		h.Add(d)
	}
	var e Page
	e.AddHistogram("h", "help.", &h, "a", "b")
	want := `# HELP h help.
# TYPE h histogram
h_bucket{a="b",le="0.001"} 2
h_bucket{a="b",le="0.0025"} 3
h_bucket{a="b",le="0.005"} 3
h_bucket{a="b",le="0.01"} 3
h_bucket{a="b",le="0.025"} 3
h_bucket{a="b",le="0.05"} 3
h_bucket{a="b",le="0.1"} 3
h_bucket{a="b",le="0.25"} 3
h_bucket{a="b",le="0.5"} 3
h_bucket{a="b",le="1"} 4
h_bucket{a="b",le="2.5"} 4
h_bucket{a="b",le="10"} 4
h_bucket{a="b",le="+Inf"} 5
h_sum{a="b"} 3601.002000001
h_count{a="b"} 5
`
	testkit.Equal(t, string(e.Text()), want)
}

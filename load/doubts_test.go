package load_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// A reason that applies to several parts is one text with the names of all and the worst figure.
func TestDoubtsOfSeveralPartsAreOneText(t *testing.T) {
	late := func(d time.Duration) *hist.Histogram {
		h := hist.New()
		h.RecordN(d, 100)
		return h
	}
	r := load.Result{Parts: []load.PartResult{
		{Name: "a", Generator: load.Generator{Busy: 0.92, Lag: late(time.Millisecond)}},
		{Name: "b", Generator: load.Generator{Busy: 0.1, Lag: late(time.Microsecond)}},
		{Name: "c", Generator: load.Generator{Busy: 0.95, Lag: late(2 * time.Millisecond)}},
	}}
	want := []string{
		"the generators on a and c were busy up to 95% of the time: they, not the server, may have limited the rate",
		"the generators on a and c were late: the latest sent 1 % of requests 2ms or more after they were due, although a connection was free",
	}
	if got := r.Doubts(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Parts = r.Parts[:1]
	want = []string{
		"the generator on a was busy 92% of the time: it, not the server, may have limited the rate",
		"the generator on a was late: it sent 1 % of requests 1ms or more after they were due, although a connection was free",
	}
	if got := r.Doubts(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

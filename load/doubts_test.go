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

// The server was too slow only if more requests lack a response than are in flight in any case.
// Those that failed are errors.
func TestRequestsInFlightAtTheEndAreNoDoubt(t *testing.T) {
	const tooSlow = "of 100 due requests, 80 had a response and 20 were in flight at the end: the server was too slow for the rate, or 8 connections were too few"
	for name, test := range map[string]struct {
		min, max, warmup float64 // seconds; the latencies are evenly distributed
		errors           load.Errors
		want             []string
	}{
		"400 ms each":          {min: 0.4, max: 0.4},
		"a growing queue":      {min: 0.01, max: 0.4, want: []string{tooSlow}},
		"400 ms, and a warmup": {min: 0.4, max: 0.4, warmup: 1, want: []string{tooSlow}},
		"errors":               {min: 0.01, max: 0.01, errors: load.Errors{Read: 10, Write: 5, Refused: 5}},
		"timeouts":             {min: 0.01, max: 0.01, errors: load.Errors{Timeout: 20}, want: []string{tooSlow}},
	} {
		r := load.Result{Due: 100, Requests: 80, InFlight: 20, Seconds: 2, Warmup: test.warmup, Connections: 8,
			Latency: hist.New(), Errors: test.errors}
		for i := range 80 {
			r.Latency.Record(time.Duration((test.min + (test.max-test.min)*float64(i)/79) * 1e9))
		}
		if got := r.Doubts(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

package load_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

// Requests that were due while a server stalled have waited, even if their own responses are
// immediate. The latency of an open loop shows this; the service time and a closed loop do not.
func TestStallShowsInOpenLoopLatencyOnly(t *testing.T) {
	const stall = 400 * time.Millisecond
	var stalls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if stalls.Add(1) == 20 {
			time.Sleep(stall)
		}
	}))
	defer server.Close()
	again(t, func(time.Duration) error {
		stalls.Store(0)
		r := run(t, load.Plan{URL: server.URL, Connections: 1, Pace: load.Constant(100), Duration: time.Second})
		if r.Errors.Total() != 0 || r.Latency.Quantile(0.9) < stall/4 || r.Service.Quantile(0.9) > stall/4 {
			return fmt.Errorf("errors %+v; one in ten took %v since it was due and %v since it was sent, of %d",
				r.Errors, r.Latency.Quantile(0.9), r.Service.Quantile(0.9), r.Requests)
		}
		if r.Due < 90 || r.Due > 130 {
			return fmt.Errorf("%v requests were due, want 100 and those of a late end", r.Due)
		}
		return nil
	})
	again(t, func(time.Duration) error {
		stalls.Store(0)
		r := run(t, load.Plan{URL: server.URL, Connections: 1, Duration: time.Second})
		if r.Latency.Quantile(0.9) > stall/4 || r.Latency.Max() < stall ||
			r.Latency.Count() != r.Service.Count()+int64(r.NoResponse) {
			return fmt.Errorf("closed loop: one in ten took %v, the longest %v; %d and %d", r.Latency.Quantile(0.9),
				r.Latency.Max(), r.Latency.Count(), r.Service.Count())
		}
		return nil
	})
}

// Requests without any response count with the time that they waited: all due ones in an open loop,
// those that were sent in a closed one.
func TestMissingResponsesCount(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, test := range map[string]struct {
		pace        load.Pace
		least, most uint64
	}{"closed": {load.Pace{}, 3, 3}, "open": {load.Constant(100), 40, 70}} {
		again(t, func(time.Duration) error {
			r := run(t, load.Plan{URL: "http://" + l.Addr().String(), Connections: 3, Pace: test.pace,
				Duration: 500 * time.Millisecond})
			if r.Requests != 0 || r.NoResponse < test.least || r.NoResponse > test.most ||
				r.Latency.Max() < 400*time.Millisecond {
				return fmt.Errorf("%s: %d responses, and %d missing after %v", name, r.Requests, r.NoResponse,
					r.Latency.Max())
			}
			if text := strings.Join(r.Doubts(), " "); strings.Contains(text,
				"due requests, 0 had a response") != (name == "open") {
				return fmt.Errorf("%s: doubts: %q", name, text)
			}
			return nil
		})
	}
	r := some(t, load.Plan{URL: "http://" + l.Addr().String(), Connections: 2, Timeout: 100 * time.Millisecond,
		Duration: 500 * time.Millisecond})
	if r.Errors.Timeout == 0 || r.Latency.Count() < int64(r.Errors.Timeout) ||
		r.Latency.Quantile(0.5) < 90*time.Millisecond {
		t.Errorf("%d timeouts, %d latencies with a median of %v", r.Errors.Timeout, r.Latency.Count(),
			r.Latency.Quantile(0.5))
	}
}

// The first byte arrives before the last.
func TestFirstBytePrecedesTheLast(t *testing.T) {
	const pause = 50 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(pause)
	}))
	defer server.Close()
	again(t, func(longer time.Duration) error {
		r := run(t, load.Plan{URL: server.URL, Connections: 1, Duration: longer * 500 * time.Millisecond})
		if r.Requests == 0 || r.FirstByte.Count() != int64(r.Requests) || r.Service.Quantile(0.5) < pause ||
			r.FirstByte.Quantile(0.5) >= pause {
			return fmt.Errorf("%d requests; the first byte after %v, the last after %v", r.Requests,
				r.FirstByte.Quantile(0.5), r.Service.Quantile(0.5))
		}
		return nil
	})
}

// A Pace may change its rate during a run.
func TestPaceFollowsItsSteps(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	defer server.Close()
	again(t, func(time.Duration) error {
		r := run(t, load.Plan{URL: server.URL, Connections: 8, Threads: 2, Duration: time.Second,
			Pace: load.Pace{Steps: []load.Step{
				{From: 0, To: 400, For: 500 * time.Millisecond}, {From: 50, To: 50},
			}}})
		if r.Errors.Total() != 0 || r.Requests < 70 || r.Requests > 170 || r.Due < 110 || r.Due > 160 {
			return fmt.Errorf("%d requests of %v, want 100 and then 25; errors %+v", r.Requests, r.Due, r.Errors)
		}
		return nil
	})
}

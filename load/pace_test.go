package load_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// Spare connections are opened after each of the others and send nothing.
func TestSpareConnectionsSendNothing(t *testing.T) {
	for _, pace := range []load.Pace{{}, load.Constant(1000)} {
		var opened []string // in order, by the one goroutine that accepts
		var clients sync.Map
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			clients.Store(r.RemoteAddr, true)
		}))
		server.Config.ConnState = func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened = append(opened, c.RemoteAddr().String())
			}
		}
		server.Start()
		runCleanly(t, load.Plan{URL: server.URL, Connections: 4, Threads: 1, Spare: 2, Pace: pace, Requests: 100})
		server.Close()
		testkit.Equal(t, len(opened), 12, "connections, pace", pace)
		for i, c := range opened {
			_, busy := clients.Load(c)
			testkit.Equal(t, busy, i%3 == 0, "connection", i, "has sent requests, pace", pace)
		}
	}
}

// Bytes received without a request are an error.
func TestUnsolicitedBytesAreErrors(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	const late = time.Second // long after a response, and long before the next request
	twice := func(c net.Conn, response string) {
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			io.WriteString(c, response)
			time.Sleep(late)
			io.WriteString(c, response)
			io.Copy(io.Discard, c)
		}
	}
	for _, url := range []string{
		script(t, func(_ int, c net.Conn, _ *bufio.Reader) { twice(c, httpResponse) }),
		fcgiScript(t, func(_ int, c net.Conn, _ *bufio.Reader) { twice(c, load.Stdout(cgiResponse)+load.End(0, 0)) }),
	} {
		r := run(t, load.Plan{URL: url, Connections: 1, Pace: load.Constant(0.5), Requests: 2})
		if r.Errors.Read == 0 || r.Errors.Read != r.Errors.Total() ||
			!strings.Contains(r.Errors.First, "received bytes before a request was sent") {
			t.Errorf("%s: %d requests, errors %+v", url, r.Requests, r.Errors)
		}
	}
}

// A server may close idle connections. That is no error, and the connection is reopened.
func TestClosedIdleConnectionIsNoError(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.IdleTimeout = 20 * time.Millisecond
	server.Start()
	defer server.Close()
	// What is closed just when a request is sent is an error: the requests are far apart.
	r := run(t, load.Plan{URL: server.URL, Connections: 1, Pace: load.Constant(1), Requests: 3})
	if r.Requests != 3 || r.Connects == 0 || r.Errors.Total() != 0 {
		t.Errorf("%d requests, %d connections made, errors %+v", r.Requests, r.Connects, r.Errors)
	}
}

// Requests that were due while a server stalled have waited, even if their own responses are
// immediate. The latency of an open loop shows this; the service time and a closed loop do not.
func TestStallShowsInOpenLoopLatencyOnly(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it sends requests for a second")
	const stall = 400 * time.Millisecond
	var stalls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if stalls.Add(1) == 20 {
			time.Sleep(stall)
		}
	}))
	defer server.Close()
	r := run(t, load.Plan{URL: server.URL, Connections: 1, Pace: load.Constant(100), Requests: 100})
	// 40 requests were due while the server stalled. They waited for 200 ms on average.
	if r.Errors.Total() != 0 || r.Latency.Quantile(0.8) < stall/4 || r.Latency.Mean() < r.Service.Mean()+stall/8 {
		t.Errorf("errors %+v; one in five took %v since it was due; the mean is %v, and %v since it was sent",
			r.Errors, r.Latency.Quantile(0.8), r.Latency.Mean(), r.Service.Mean())
	}
	stalls.Store(0)
	r = run(t, load.Plan{URL: server.URL, Connections: 1, Requests: 100})
	if r.Latency.Max() < stall || r.Latency.Mean() != r.Service.Mean() || r.Latency.Count() != r.Service.Count() {
		t.Errorf("closed loop: the longest took %v; means of %v and %v of %d and %d", r.Latency.Max(),
			r.Latency.Mean(), r.Service.Mean(), r.Latency.Count(), r.Service.Count())
	}
}

// Requests without any response count with the time that they waited: all due ones in an open loop,
// those that were sent in a closed one.
func TestMissingResponsesCount(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	for name, test := range map[string]struct {
		pace  load.Pace
		least uint64
	}{"closed": {load.Pace{}, 3}, "open": {load.Constant(100), 40}} {
		r := run(t, load.Plan{URL: "http://" + l.Addr().String(), Connections: 3, Pace: test.pace,
			Duration: 500 * time.Millisecond})
		if r.Requests != 0 || r.NoResponse < test.least || name == "closed" && r.NoResponse != test.least ||
			r.Latency.Max() < 100*time.Millisecond { // on a busy machine they are sent late
			t.Errorf("%s: %d responses, and %d missing after %v", name, r.Requests, r.NoResponse, r.Latency.Max())
		}
		testkit.Equal(t, strings.Contains(strings.Join(r.Doubts(), " "), "due requests, 0 had a response"), name == "open",
			name, r.Doubts())
	}
	r := run(t, load.Plan{URL: "http://" + l.Addr().String(), Connections: 2, Timeout: 100 * time.Millisecond,
		Requests: 4})
	if r.Errors.Timeout != 4 || r.Latency.Count() != 4 ||
		r.Latency.Quantile(0.5) < 90*time.Millisecond {
		t.Errorf("%d timeouts, %d latencies with a median of %v", r.Errors.Timeout, r.Latency.Count(),
			r.Latency.Quantile(0.5))
	}
}

func TestFirstBytePrecedesTheLast(t *testing.T) {
	t.Parallel()
	const pause = 50 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(pause)
	}))
	defer server.Close()
	r := run(t, load.Plan{URL: server.URL, Connections: 1, Requests: 10})
	if r.FirstByte.Count() != 10 || r.Service.Quantile(0) < pause || r.FirstByte.Mean() >= r.Service.Mean() {
		t.Errorf("%d requests; the first byte after %v, the last after %v", r.FirstByte.Count(), r.FirstByte.Mean(),
			r.Service.Mean())
	}
}

// If a server closes each connection, reopening does not keep other connections from ever opening.
func TestReopeningLeavesRoomForNewConnections(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // it takes a tenth of a second, or for ever
	defer cancel()
	connected := false
	r, err := load.Run(ctx, load.Plan{
		URL: server.URL, Connections: 300, Threads: 1, Warmup: time.Millisecond, Requests: 10,
		Trace: &load.Trace{Connected: func() { connected = true }},
	})
	if err != nil || !connected || r.Requests == 0 {
		t.Errorf("connected: %v; %+v, %v", connected, r, err)
	}
}

package load_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

const (
	// brief is the default duration of load.
	brief = 200 * time.Millisecond
	// patience is the longest time for a response before the test assumes a hang.
	patience = 30 * time.Second
)

// run runs a short plan against a server and fails the test on errors.
func run(t *testing.T, p load.Plan) *load.Result {
	t.Helper()
	if p.Duration == 0 && p.Requests == 0 {
		p.Duration = brief
	}
	if p.Timeout == 0 {
		p.Timeout = patience
	}
	return testkit.Value(load.Run(context.Background(), p))(t)
}

// runCleanly is run for a plan whose requests must succeed.
func runCleanly(t *testing.T, p load.Plan) *load.Result {
	t.Helper()
	r := run(t, p)
	if r.Requests != p.Requests || r.Errors.Total() != 0 {
		t.Errorf("%s: %d of %d requests, errors %+v", p.URL, r.Requests, p.Requests, r.Errors)
	}
	return r
}

// runUntil runs a plan until its progress is enough, and cancels it then.
func runUntil(t *testing.T, p load.Plan, enough func(load.Progress) bool) *load.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var trace load.Trace
	if p.Trace != nil {
		trace = *p.Trace
	}
	trace.Progress = func(now load.Progress) {
		if enough(now) {
			cancel()
		}
	}
	p.Trace, p.Duration, p.Timeout = &trace, 2*patience, cmp.Or(p.Timeout, patience)
	r, err := load.Run(ctx, p)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: %+v", err, r)
	}
	return r
}

// The servers here are net/http's, net/http/fcgi's or scripts of bytes, never tare's, with which the
// generator shares its codecs.
func TestCountsWhatTheServerCounts(t *testing.T) {
	var served atomic.Int64
	var seen sync.Map
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		b, _ := io.ReadAll(r.Body)
		seen.Store(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-A"), b), true)
		if params := fcgi.ProcessEnv(r); r.Host != "a.example" ||
			params != nil && (r.RemoteAddr != "127.0.0.1:49152" || params["SCRIPT_FILENAME"] != "/srv"+r.URL.Path) {
			t.Errorf("%s of %s: %v", r.Host, r.RemoteAddr, params)
		}
		switch r.URL.Path {
		case "/flushed":
			io.WriteString(w, strings.Repeat("x", 3000))
			w.(http.Flusher).Flush()
			io.WriteString(w, "y")
		case "/large":
			w.Write(make([]byte, 300_000))
		case "/404":
			http.NotFound(w, r)
		case "/length":
			w.Header().Set("Content-Length", "2")
			io.WriteString(w, "ok")
		case "/close":
			w.Header().Set("Connection", "close")
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
		}
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	l, application := listen(t, "fcgi", "tcp")
	go fcgi.Serve(l, handler)
	for _, test := range []struct {
		path, seen string
		plan       load.Plan
		isHTTP     bool // FastCGI does not have it
	}{
		{path: "", seen: "GET /  "},
		{path: "/a?b=c", seen: "GET /a?b=c 1 ", plan: load.Plan{Header: []string{"X-A: 1"}}},
		{path: "/post", seen: "POST /post  hello", plan: load.Plan{Method: "POST", Body: "hello"}},
		{path: "/head", seen: "HEAD /head  ", plan: load.Plan{Method: "HEAD"}},
		{path: "/flushed", seen: "GET /flushed  "},
		{path: "/large", seen: "GET /large  "},
		{path: "/404", seen: "GET /404  "},
		{path: "/length", seen: "GET /length  ", plan: load.Plan{Pace: load.Constant(300)}},
		{path: "/close", seen: "GET /close  ", isHTTP: true},
		{path: "/hints", seen: "GET /hints  ", isHTTP: true},
	} {
		for _, url := range []string{server.URL, application} {
			if test.isHTTP && url == application {
				continue
			}
			const connections = 7
			p := test.plan
			p.URL, p.Connections, p.Threads, p.Requests = url+test.path, connections, 2, 10*connections
			p.Header, p.Params = append([]string{"Host: a.example"}, p.Header...), nil
			if url == application {
				p.Params = []string{"DOCUMENT_ROOT=/srv"}
			}
			served.Store(0)
			r := run(t, p)
			if _, ok := seen.LoadAndDelete(test.seen); !ok {
				t.Errorf("%s: the server did not receive %q", p.URL, test.seen)
			}
			status, failed := 200, uint64(0)
			if test.path == "/404" {
				status, failed = 404, p.Requests
			}
			if r.Requests != p.Requests || uint64(served.Load()) != p.Requests || r.Statuses[status] != p.Requests ||
				r.Errors.Total() != failed || r.FastCGI != nil && *r.FastCGI != (load.FastCGI{}) {
				t.Errorf("%s: %d requests, %d served, statuses %v, errors %+v, %+v", p.URL, r.Requests, served.Load(),
					r.Statuses, r.Errors, r.FastCGI)
			}
			if uint64(r.Service.Count()) != r.Requests || uint64(r.Latency.Count()) != r.Requests+r.NoResponse ||
				r.Latency.Max() <= 0 || r.URL != p.URL {
				t.Errorf("%s: %s, %d latencies, longest %v", p.URL, r.URL, r.Latency.Count(), r.Latency.Max())
			}
			testkit.Equal(t, r.Connects > connections, test.path == "/close", p.URL, "more connections are made")
		}
	}
}

// script starts a server that handles each connection by a function.
func script(t *testing.T, serve func(n int, c net.Conn, requests *bufio.Reader)) string {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	testkit.Accept(l, func(n int, c net.Conn) { serve(n, c, bufio.NewReader(c)) })
	return "http://" + l.Addr().String()
}

// each responds to each request.
func each(response string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, requests *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(requests); err != nil {
				return
			}
			io.WriteString(c, response)
		}
	}
}

// Memory is allocated per connection and per second, not per request.
func TestRequestsAllocateNothing(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	testkit.NoRace(t, "it multiplies the CPU time of the load")
	response := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	url := script(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		in := make([]byte, 4096) // a request comes in one piece
		for {
			n, err := c.Read(in)
			if err != nil {
				return
			}
			for range bytes.Count(in[:n], []byte("\r\n\r\n")) {
				c.Write(response)
			}
		}
	})
	for name, p := range map[string]load.Plan{
		"plain": {}, "pipelined": {Pipeline: 4}, "a list": {List: []load.Request{{}, {URL: "/a"}}, Shuffle: true},
		"open loop": {Pace: load.Constant(40_000)},
		"expecting": {Expect: load.Expect{Header: []string{"Content-Length: 2"}}},
	} {
		p.URL = url
		allocatesNothing(t, name, p)
	}
}

// allocatesNothing fails if a plan's requests allocate memory. Other goroutines' allocations count,
// too, and those of each second's histograms: both are fewer than the requests of a second, except on
// a machine that is busy otherwise.
func allocatesNothing(t *testing.T, name string, p load.Plan) {
	t.Helper()
	const perSecond = 5000
	var before, after runtime.MemStats
	p.Connections, p.Threads, p.Warmup, p.Requests = 4, 1, 100*time.Millisecond, 20_000
	p.Trace = &load.Trace{Started: func() { runtime.ReadMemStats(&before) },
		Ended: func() { runtime.ReadMemStats(&after) }}
	r := run(t, p)
	if n, most := after.Mallocs-before.Mallocs, r.Requests/4+perSecond*uint64(len(r.Timeline)); r.Requests != p.Requests || n > most {
		t.Errorf("%s: %d allocations for %d requests, want at most %d", name, n, r.Requests, most)
	}
}

func TestBodyMayEndWithTheConnection(t *testing.T) {
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nall there is")
	})
	r := run(t, load.Plan{URL: url, Connections: 2, Requests: 20})
	if r.Requests != 20 || r.Errors.Total() != 0 || r.Connects < 18 {
		t.Errorf("%d requests, %d connects, errors %+v", r.Requests, r.Connects, r.Errors)
	}
}

// No response is faster than the server.
func TestLatencyIsTheServersDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(delay) }))
	defer server.Close()
	r := run(t, load.Plan{URL: server.URL, Connections: 4, Requests: 100})
	// Little's law: connections = rate × mean latency. The first and the last requests have gaps.
	if busy := r.PerSecond() * r.Latency.Mean().Seconds(); r.Latency.Quantile(0) < delay || busy > 4.4 {
		t.Errorf("from %v on, and %v connections were busy, want 4", r.Latency.Quantile(0), busy)
	}
}

func TestTraceReportsPhasesAndProgress(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var order []string
	var last load.Progress
	r := runUntil(t, load.Plan{
		URL: server.URL, Connections: 5, Warmup: 150 * time.Millisecond,
		Trace: &load.Trace{
			Connected: func() { order = append(order, "connected") },
			Started:   func() { order = append(order, "started") },
			Ended:     func() { order = append(order, "ended") },
		},
	}, func(p load.Progress) bool {
		last = p
		return p.Measuring && p.Elapsed > 1100*time.Millisecond && p.Requests > 0
	})
	testkit.Equal(t, strings.Join(order, " "), "connected started ended")
	if !last.Measuring || last.Requests == 0 || last.Requests > r.Requests {
		t.Errorf("last glance %+v of %d requests", last, r.Requests)
	}
	var requests, sent uint64
	for _, s := range r.Timeline {
		requests, sent = requests+s.Requests, sent+s.Bytes
	}
	if len(r.Timeline) < 2 || requests != r.Requests || sent != r.Bytes {
		t.Errorf("timeline %+v of %d requests", r.Timeline, r.Requests)
	}
	if r.Opened != 5 || r.Connects != 0 || r.Generator.Busy <= 0 || r.Generator.Busy > 1.2 {
		t.Errorf("opened %d, connects %d, generator %+v", r.Opened, r.Connects, r.Generator)
	}
	b := testkit.Value(json.Marshal(r))(t)
	var back load.Result
	if err := json.Unmarshal(b, &back); err != nil || back.Service.Count() != int64(r.Requests) ||
		back.Latency.Count() != int64(r.Requests+r.NoResponse) {
		t.Errorf("%v, %v", err, back.Latency)
	}
}

// A closed loop starts when every connection has been accepted. A server that is busy with the
// first ones would take long to accept the last.
func TestLoadStartsWhenAllConnectionsAreAccepted(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	const connections = 400 // more than a worker opens at once
	var mu sync.Mutex
	requests := make(map[string]int)
	var atSecond int // connections that had sent a request when one sent its second
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests[r.RemoteAddr]++; requests[r.RemoteAddr] == 2 && atSecond == 0 {
			atSecond = len(requests)
		}
	}))
	defer server.Close()
	runUntil(t, load.Plan{URL: server.URL, Connections: connections}, func(load.Progress) bool {
		mu.Lock()
		defer mu.Unlock()
		return atSecond > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if atSecond < connections/2 { // on a busy machine some may be given the benefit of the doubt
		t.Errorf("load began when %d of %d connections were accepted", atSecond, connections)
	}
}

// Events are counted as they arrive, whether or not the response ends, over HTTP/1.1 and HTTP/2.
func TestEventsAreCounted(t *testing.T) {
	testkit.Long(t, "it sends requests for a second")
	const events, pause = 4, 20 * time.Millisecond
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		for i := 0; i < events || r.URL.Query().Has("endless") && r.Context().Err() == nil; i++ {
			if i > 0 {
				time.Sleep(pause)
			}
			fmt.Fprintf(w, ": a comment\n\ndata: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	for _, test := range []struct {
		query string
		plan  load.Plan
		want  uint64 // 0: at least one
	}{
		{"?type=text/event-stream%3Bcharset=utf-8", load.Plan{Requests: 3}, 3 * events},
		{"?type=text/event-stream", load.Plan{Requests: 3, Version: load.HTTP2, Pipeline: 3}, 3 * events},
		{"?type=text/event-stream&endless", load.Plan{Duration: time.Second}, 0},
	} {
		test.plan.URL, test.plan.Connections = server.URL+"/"+test.query, 1
		r := run(t, test.plan)
		if r.Events == 0 || test.want > 0 && r.Events != test.want {
			t.Fatalf("%s: %d events, want %d", test.query, r.Events, test.want)
		}
		// on a busy machine some events are received together
		if h := r.BetweenEvents; h.Quantile(1) < pause/2 || test.want > 0 && h.Count() != 3*(events-1) {
			t.Errorf("%s: %d times between events, at most %v", test.query, h.Count(), h.Quantile(1))
		}
	}
	testkit.Equal(t, run(t, load.Plan{URL: server.URL + "/?type=text/plain", Connections: 1, Requests: 1}).Events, 0,
		"events in plain text")
}

// A run keeps data per connection and per second, not per request, so its memory does not grow.
func TestMemoryDoesNotGrowWithRequests(t *testing.T) {
	testkit.Long(t, "it sends many requests")
	testkit.NoRace(t, "it takes memory")
	requests := uint64(300_000)
	if testkit.Slow() {
		requests = 10_000_000
	}
	response := []byte(httpResponse)
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for { // responds to all requests that have arrived
			if _, err := r.Peek(1); err != nil {
				return
			}
			in, _ := r.Peek(r.Buffered())
			n := bytes.Count(in, []byte("\r\n\r\n"))
			if n == 0 {
				time.Sleep(time.Microsecond) // a part of one
				continue
			}
			end := bytes.LastIndex(in, []byte("\r\n\r\n")) + 4
			r.Discard(end)
			if _, err := c.Write(bytes.Repeat(response, n)); err != nil {
				return
			}
		}
	})
	var first, last uint64
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := run(t, load.Plan{URL: url, Connections: 32, Pipeline: 8, Threads: 1, Requests: requests,
		Warmup: 200 * time.Millisecond, Trace: &load.Trace{
			Started: func() { first = heap() }, // a glance may come late
			Progress: func(p load.Progress) {
				switch {
				case p.Requests < requests/4:
					first = heap()
				case p.Requests > requests*3/4:
					last = heap()
				}
			},
			Ended: func() { last = heap() },
		}})
	const room = 2 << 20 // for what the histograms of some seconds take, and what the server has in hand
	if r.Requests != requests || r.Errors.Total() != 0 || last > first+room {
		t.Errorf("%d requests, errors %+v; %d bytes in use in the first quarter, %d at the end", r.Requests, r.Errors,
			first, last)
	}
}

func TestMain(m *testing.M) { os.Exit(testkit.Tests{M: m}.Run()) }

const (
	httpResponse = "HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Length: 12\r\n\r\nHello World\n"
	cgiResponse = "Status: 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 12\r\n\r\nHello World\n"
)

// BenchmarkRequest measures the generator's CPU time per request against a minimal server.
func BenchmarkRequest(b *testing.B) {
	responses := map[string]string{"http": httpResponse,
		"fcgi": load.Stdout(cgiResponse) + load.Stdout("") + load.End(0, 0)}
	for _, scheme := range []string{"http", "fcgi"} {
		for _, network := range []string{"tcp", "unix"} {
			for _, connections := range []int{64, 1000} {
				b.Run(scheme+"-"+network+"-"+strconv.Itoa(connections), func(b *testing.B) {
					l, url := listen(b, scheme, network)
					testkit.Accept(l, func(_ int, c net.Conn) { parrot(c, []byte(responses[scheme])) })
					var cpu, requests float64
					for b.Loop() {
						r, err := load.Run(context.Background(), load.Plan{
							URL: url, Connections: connections, Threads: 1, Warmup: 100 * time.Millisecond,
							Duration: 400 * time.Millisecond,
						})
						if err != nil || r.Errors.Total() > 0 {
							b.Fatal(err, r.Errors)
						}
						cpu += r.Generator.UserSeconds + r.Generator.SysSeconds
						requests += float64(r.Requests)
					}
					b.ReportMetric(cpu/requests*1e9, "cpu-ns/request")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// parrot sends the same response for each piece of input.
func parrot(c net.Conn, response []byte) {
	for in := make([]byte, 4096); ; {
		if _, err := c.Read(in); err != nil {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}

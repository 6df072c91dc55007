package load_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

// sliced is a plan for a Session and the counter of its server.
type sliced struct {
	plan             load.Plan
	requests, opened *atomic.Int64
}

// slicedPlans returns a plan for each protocol and each kind of connection reuse.
func slicedPlans(t *testing.T) map[string]sliced {
	var requests, opened atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.WriteString(w, "hello")
	})
	serve := func(secure bool) string {
		s := httptest.NewUnstartedServer(handler)
		s.EnableHTTP2 = true
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetHTTP2(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.URL
	}
	plain, secure := serve(false), serve(true)
	plans := map[string]load.Plan{
		"HTTP/1.1":       {URL: plain},
		"pipelined":      {URL: plain, Pipeline: 3},
		"kept for five":  {URL: plain, PerConnection: 5},
		"not kept":       {URL: plain, PerConnection: 1},
		"HTTP/1.0":       {URL: plain, Version: load.HTTP10},
		"TLS":            {URL: secure},
		"HTTP/2":         {URL: secure, Version: load.HTTP2, Pipeline: 4},
		"h2c":            {URL: plain, Version: load.HTTP2},
		"thinking":       {URL: plain, Think: 2 * time.Millisecond},
		"at a pace":      {URL: plain, Pace: load.Constant(2000)},
		"at random":      {URL: plain, Pace: load.Pace{Steps: load.Constant(2000).Steps, Poisson: true}},
		"with the spare": {URL: plain, Spare: 2},
	}
	for i, url := range application(t, handler) {
		plans["FastCGI "+string(rune('a'+i))] = load.Plan{URL: url}
	}
	all := make(map[string]sliced)
	for name, p := range plans {
		p.Connections, p.Threads, p.TLS, p.Timeout = 7, 2, &tls.Config{InsecureSkipVerify: true}, patience
		all[name] = sliced{p, &requests, &opened}
	}
	return all
}

// Slices count what the server counts, and the server receives nothing between them.
func TestSlicesCountWhatTheServerCounts(t *testing.T) {
	for name, s := range slicedPlans(t) {
		t.Run(name, func(t *testing.T) {
			again(t, func(longer time.Duration) error { return checkSlices(t, s, longer*30*time.Millisecond) })
		})
	}
}

// checkSlices checks a session of four slices and its result. It returns an error if a slice has no
// request: on a busy machine a worker may not run meanwhile.
func checkSlices(t *testing.T, s sliced, slice time.Duration) error {
	session, err := load.Open(t.Context(), s.plan)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Slice(t.Context(), slice, false); err != nil {
		t.Fatal(err)
	}
	before, opened, empty := s.requests.Load(), s.opened.Load(), error(nil)
	var sum load.Slice
	for range 4 {
		got, err := session.Slice(t.Context(), slice, true)
		if err != nil {
			t.Fatal(err)
		}
		if got.Elapsed < slice || got.Drained > got.Elapsed || got.Drained < 0 {
			t.Errorf("%+v", got)
		}
		if got.Requests == 0 {
			empty = fmt.Errorf("no request in a slice of %v", slice)
		}
		sum.Requests += got.Requests
		sum.Elapsed += got.Elapsed
		sum.Drained += got.Drained
		sum.Due += got.Due
		if seen := uint64(s.requests.Load() - before); seen != sum.Requests {
			t.Errorf("%d requests counted, the server saw %d", sum.Requests, seen)
		}
	}
	kept := s.plan.PerConnection == 0 && s.plan.Version != load.HTTP10
	if made := s.opened.Load() - opened; kept && made != 0 {
		t.Errorf("%d connections were made in slices", made)
	}
	r := session.Close()
	if empty == nil {
		checkSessionResult(t, s.plan, r, sum)
	}
	if session.Close() != r {
		t.Error("another result")
	}
	if _, err := session.Slice(t.Context(), slice, true); err == nil {
		t.Error("a slice of a session that has ended")
	}
	return empty
}

// checkSessionResult checks the result of a session against the sum of its slices.
func checkSessionResult(t *testing.T, p load.Plan, r *load.Result, sum load.Slice) {
	t.Helper()
	if r.Requests != sum.Requests || r.Errors.Total() != 0 || r.Seconds != sum.Elapsed.Seconds() ||
		r.Drained != sum.Drained.Seconds() {
		t.Errorf("%d requests, %d errors (%s), %v seconds and %v drained; slices of %+v", r.Requests,
			r.Errors.Total(), r.Errors.First, r.Seconds, r.Drained, sum)
	}
	if uint64(r.Service.Count()) != r.Requests || uint64(r.Latency.Count()) != r.Requests+r.NoResponse ||
		r.Statuses[200] != r.Requests || r.Bytes == 0 {
		t.Errorf("%d requests, %d and %d latencies, statuses %v, %d bytes", r.Requests, r.Service.Count(),
			r.Latency.Count(), r.Statuses, r.Bytes)
	}
	if cpu := r.Generator.UserSeconds + r.Generator.SysSeconds; cpu <= 0 || r.Generator.Busy <= 0 ||
		cpu > 2*r.Seconds {
		t.Errorf("%v s of CPU time in %v s", cpu, r.Seconds)
	}
	if paced := len(p.Pace.Steps) > 0; paced != (r.Due > 0) || math.Abs(r.Due-sum.Due) > 1e-6 ||
		paced && float64(r.Requests) > r.Due+6*math.Sqrt(r.Due) {
		t.Errorf("%d requests of %v that were due, %v in slices", r.Requests, r.Due, sum.Due)
	}
	if r.Timeline != nil {
		t.Error("a timeline")
	}
}

// A paused Session sends nothing, opens no connections and uses no CPU time, even if its server
// closes the connections. The next slice reopens them.
func TestPausedSessionIsSilent(t *testing.T) {
	var requests, opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
	}))
	closed := make(chan bool, 100)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- true
		}
	}
	server.Start()
	defer server.Close()
	session, err := load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 5, Threads: 2, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 3 {
		requested, made := requests.Load(), opened.Load() // the server has accepted all connections
		server.CloseClientConnections()
		for range 5 {
			<-closed
		}
		time.Sleep(120 * time.Millisecond) // longer than two sweeps
		if requests.Load() != requested || opened.Load() != made {
			t.Fatalf("%d requests and %d connections while it rested", requests.Load()-requested, opened.Load()-made)
		}
		// On a busy machine a slice may end before all connections are open again and have a request.
		for late := time.Now().Add(patience); opened.Load() < made+5 || requests.Load() == requested; {
			got, err := session.Slice(t.Context(), 50*time.Millisecond, true)
			if err != nil || got.Errors != 0 || time.Now().After(late) {
				t.Fatalf("%+v, %v; %d connections", got, err, opened.Load()-made)
			}
		}
		if opened.Load() != made+5 {
			t.Fatalf("%d connections", opened.Load()-made)
		}
	}
	if r := session.Close(); r.Errors.Total() != 0 || r.Connects != 15 {
		t.Errorf("%+v; %d connections", r.Errors, r.Connects)
	}
}

// A request without a response is an error of the slice, which then ends.
func TestHangingRequestIsAnErrorOfItsSlice(t *testing.T) {
	var hangs atomic.Bool
	release := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer close(release)
	again(t, func(longer time.Duration) error {
		hangs.Store(false)
		session, err := load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 3,
			Timeout: longer * 200 * time.Millisecond})
		if err != nil {
			return err
		}
		defer session.Close()
		hangs.Store(true)
		got, err := session.Slice(t.Context(), longer*20*time.Millisecond, true)
		if err != nil || got.Errors < 3 || got.Drained < 100*time.Millisecond || got.Drained > patience {
			return fmt.Errorf("%+v, %w", got, err)
		}
		hangs.Store(false)
		if got, err := session.Slice(t.Context(), longer*100*time.Millisecond, true); err != nil ||
			got.Requests == 0 || got.Errors != 0 {
			return fmt.Errorf("afterwards: %+v, %w", got, err)
		}
		if r := session.Close(); r.Errors.Timeout < 3 {
			return fmt.Errorf("%+v", r.Errors)
		}
		return nil
	})
}

// A server that goes away causes errors, but each slice still ends.
func TestSlicesEndWithoutAServer(t *testing.T) {
	again(t, func(longer time.Duration) error {
		url, leave := leavingServer(t, 30)
		session, err := load.Open(t.Context(), load.Plan{URL: url, Connections: 4, Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		leave()
		for i := range 2 {
			got, err := session.Slice(t.Context(), longer*brief, true)
			if err != nil || got.Elapsed > patience {
				t.Fatalf("slice %d: %+v, %v", i, got, err)
			}
			if got.Errors == 0 || (got.Requests > 0) != (i == 0) {
				return fmt.Errorf("slice %d: %+v", i, got)
			}
		}
		return nil
	})
}

// leavingServer starts a server that resets all connections instead of the n-th response. leave
// closes its listener.
func leavingServer(t *testing.T, n int64) (url string, leave func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.Map // the connections
	var served atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Store(c, true)
			go func() {
				for r := bufio.NewReader(c); ; {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					if served.Add(1) == n {
						all.Range(func(c, _ any) bool {
							c.(*net.TCPConn).SetLinger(0)
							c.(*net.TCPConn).Close()
							return true
						})
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), func() { l.Close() }
}

func TestOpenFailsWithoutAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	var unreached *load.ConnectError
	if _, err := load.Open(t.Context(), load.Plan{URL: "http://" + l.Addr().String()}); !errors.As(err, &unreached) ||
		unreached.First == "" {
		t.Errorf("got %v", err)
	}
	for _, p := range []load.Plan{{Requests: 5}, {MaxErrors: 1}, {Samples: 1}, {Trace: new(load.Trace)}} {
		p.URL = "http://127.0.0.1:1"
		var bad *load.PlanError
		if _, err := load.Open(t.Context(), p); !errors.As(err, &bad) {
			t.Errorf("%+v: got %v", p, err)
		}
	}
}

// A slice ends with its context. Then the Session can be closed and leaves nothing behind.
func TestInterruptedSliceEndsTheSession(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 3 {
		session, err := load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 10, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := session.Slice(ctx, time.Minute, true); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := session.Slice(t.Context(), time.Millisecond, true); err == nil {
			t.Error("another slice")
		}
		session.Close()
	}
	server.CloseClientConnections()
	for deadline := time.Now().Add(patience); openFiles(t) > files ||
		runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files and %d goroutines, were %d and %d", openFiles(t), runtime.NumGoroutine(), files,
				goroutines)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A slice that ends before a worker has seen it has no requests, and the Session continues.
func TestMissedSliceHasNoRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	session, err := load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 2, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	slices := 400
	if isSlow() {
		slices = 2000
	}
	for range slices {
		if _, err := session.Slice(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	again(t, func(longer time.Duration) error {
		if got, err := session.Slice(t.Context(), longer*50*time.Millisecond, true); err != nil || got.Requests == 0 {
			return fmt.Errorf("afterwards: %+v, %w", got, err)
		}
		return nil
	})
}

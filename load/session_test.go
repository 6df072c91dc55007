package load_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// A paused Session sends nothing, opens no connections and uses no CPU time, even if its server
// closes the connections. The next slice reopens them.
func TestPausedSessionIsSilent(t *testing.T) {
	testkit.Long(t, "it sends requests for a second")
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
	session := testkit.Value(load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 5, Threads: 2, Timeout: patience}))(t)
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
		testkit.WaitFor(t, "connections and requests", func() bool {
			got, err := session.Slice(t.Context(), 50*time.Millisecond, true)
			if err != nil || got.Errors != 0 {
				t.Fatalf("%+v, %v; %d connections", got, err, opened.Load()-made)
			}
			return opened.Load() >= made+5 && requests.Load() > requested
		})
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
	t.Parallel()
	testkit.Long(t, "it waits for timeouts")
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
	const timeout = time.Second // a busy server may take as long for a response
	session := testkit.Value(load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 3, Timeout: timeout}))(t)
	defer session.Close()
	hangs.Store(true)
	got, err := session.Slice(t.Context(), timeout/4, true)
	if err != nil || got.Errors < 3 || got.Drained < timeout/4 {
		t.Fatalf("%+v, %v", got, err)
	}
	hangs.Store(false)
	slicesUntilResponse(t, session)
	if r := session.Close(); r.Errors.Timeout < 3 {
		t.Errorf("%+v", r.Errors)
	}
}

// slicesUntilResponse adds slices without errors until one has a response.
func slicesUntilResponse(t *testing.T, session *load.Session) {
	t.Helper()
	testkit.WaitFor(t, "a response", func() bool {
		got, err := session.Slice(t.Context(), 50*time.Millisecond, true)
		if err != nil || got.Errors != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Requests > 0
	})
}

// A server with one process waits for a request on an idle connection, and the slice for a response
// on another one, perhaps of another thread. The idle one is closed, so that the server serves the
// other.
func TestDrainFreesServerOfOneProcess(t *testing.T) {
	testkit.Long(t, "it waits for a second")
	for _, threads := range []int{1, 2} {
		l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		second := make(chan bool)
		wait := testkit.Accept(l, func(n int, c net.Conn) {
			if n == 0 {
				<-second
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}
			if n == 1 {
				close(second)
			}
		})
		session := testkit.Value(load.Open(t.Context(), load.Plan{URL: "http://" + l.Addr().String(), Connections: 2,
			Threads: threads, Pace: load.Constant(8), Timeout: patience}))(t)
		testkit.WaitFor(t, "a response", func() bool { // a request need not be due within a slice
			got, err := session.Slice(t.Context(), 100*time.Millisecond, true)
			if err != nil || got.Errors != 0 || got.Drained > patience/2 {
				t.Fatalf("%d threads: %+v, %v", threads, got, err)
			}
			return got.Requests > 0
		})
		session.Close()
		l.Close()
		wait()
	}
}

func TestOpenFailsWithoutAServer(t *testing.T) {
	var unreached *load.ConnectError
	if _, err := load.Open(t.Context(), load.Plan{URL: "http://127.0.0.1:1"}); !errors.As(err, &unreached) ||
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

// A slice that ends before a worker has seen it has no requests, and the Session continues.
func TestMissedSliceHasNoRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	session := testkit.Value(load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 2, Threads: 2}))(t)
	defer session.Close()
	slices := 400
	if testkit.Slow() {
		slices = 2000
	}
	for range slices {
		testkit.Value(session.Slice(t.Context(), 0, true))(t)
	}
	slicesUntilResponse(t, session)
}

// A slice ends with its context. Then the Session can be closed and leaves nothing behind.
func TestInterruptedSliceEndsTheSession(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	files, goroutines := testkit.OpenFiles(), runtime.NumGoroutine()
	for range 3 {
		session := testkit.Value(load.Open(t.Context(), load.Plan{URL: server.URL, Connections: 10, Threads: 2}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		testkit.FailsWith(session.Slice(ctx, time.Minute, true))(t, context.Canceled)
		testkit.Fails(session.Slice(t.Context(), time.Millisecond, true))(t, "", "another slice")
		session.Close()
	}
	server.CloseClientConnections()
	testkit.WaitFor(t, "files and goroutines to go", func() bool {
		return testkit.OpenFiles() <= files && runtime.NumGoroutine() <= goroutines
	})
}

package load_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

// Spare connections are opened after each of the others and send nothing.
func TestSpareConnectionsSendNothing(t *testing.T) {
	for _, pace := range []load.Pace{{}, load.Constant(1000)} {
		if err := spare(t, load.Plan{Pace: pace, Requests: 100}); err != nil {
			t.Error(err)
		}
	}
}

// spare returns why a run with spare connections is wrong.
func spare(t *testing.T, p load.Plan) error {
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
	p.URL, p.Connections, p.Threads, p.Spare = server.URL, 4, 1, 2
	r := run(t, p)
	server.Close()
	if r.Requests == 0 || r.Errors.Total() != 0 || len(opened) != 12 {
		return fmt.Errorf("pace %v: %d requests, %d connections, want 12; errors %+v", p.Pace, r.Requests, len(opened),
			r.Errors)
	}
	for i, c := range opened {
		if _, busy := clients.Load(c); busy != (i%3 == 0) {
			return fmt.Errorf("pace %v: connection %d sent requests: %t", p.Pace, i, busy)
		}
	}
	return nil
}

// Bytes received without a request are an error.
func TestUnsolicitedBytesAreErrors(t *testing.T) {
	const late = 100 * time.Millisecond // long after a response, and before the next request
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

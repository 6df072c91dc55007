package load_test

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// isSlow reports whether tests may take minutes.
func isSlow() bool { return os.Getenv("TARE_SLOW") != "" }

// A run keeps data per connection and per second, not per request, so its memory does not grow.
func TestMemoryDoesNotGrowWithRequests(t *testing.T) {
	requests := uint64(300_000)
	if isSlow() {
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

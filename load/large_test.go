package load_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

// A run quickly opens and uses as many connections as the process may have descriptors.
func TestAllDescriptorsCanBeConnections(t *testing.T) {
	connections := 3000
	if isSlow() {
		connections = 18_000
	}
	connections = min(connections, mostFiles()-spareFiles)
	url := elsewhere(t)
	again(t, func(longer time.Duration) error {
		r := run(t, load.Plan{URL: url, Connections: connections, Duration: longer * 2 * time.Second,
			Samples: 10 * int(longer) * connections})
		used := make(map[int32]bool)
		for _, s := range r.Samples {
			used[s.Connection] = true
		}
		if r.Errors.Total() != 0 || r.Opened != uint64(connections) || r.Connects != 0 || len(used) != connections {
			return fmt.Errorf("%d requests on %d of %d connections; %d and %d were made; errors %+v", r.Requests,
				len(used), connections, r.Opened, r.Connects, r.Errors)
		}
		return nil
	})
}

// spareFiles is the number of descriptors that a test needs besides those of its connections.
const spareFiles = 100

// mostFiles returns how many descriptors this process may have, if the system reports it.
func mostFiles() int {
	text, _ := os.ReadFile("/proc/self/limits")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if n, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
				return n
			}
		}
	}
	return math.MaxInt
}

// serveEnv makes this test binary a server, with descriptors of its own.
const serveEnv = "TARE_LOAD_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "" {
		os.Exit(testkit.Tests{M: m}.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go parrot(l, httpResponse)
	os.Stdout.WriteString(l.Addr().String() + "\n")
	io.Copy(io.Discard, os.Stdin) // until the test ends
}

// elsewhere starts a server in another process and returns its URL.
func elsewhere(t *testing.T) string {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), serveEnv+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, c)
	t.Cleanup(func() { in.Close() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address)
}

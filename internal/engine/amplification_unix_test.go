//go:build unix

package engine_test

import (
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// The limits. The first is the CPU time of a byte of any input, compared with a byte of a small
// valid request. The second is what a connection may cost besides, in such requests.
const (
	cpuPerByte = 100
	cpuFixed   = 100
)

// The server's work is in proportion to what a client sends. The test compares CPU time in one
// process. Its limit is so wide that only work that grows faster than the input exceeds it.
func TestWorkIsProportionalToInput(t *testing.T) {
	testkit.Long(t, "it transfers much")
	testkit.NoRace(t, "it multiplies the CPU time that is measured")
	t.Run("HTTP", func(t *testing.T) { checkWork(t, httpServer, get, 0, hostile(), "read") })
	t.Run("FastCGI", func(t *testing.T) {
		checkWork(t, fcgiServer, aGET("/"), 5000, hostileFCGI(), slices.Sorted(maps.Keys(bodyReaders))...)
	})
}

// checkWork compares the work for each text of at least some length with that for a small request.
func checkWork(t *testing.T, newServer func(*http.Server) server, small string, shortest int,
	texts map[string]string, readers ...string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, how := range readers {
			bodyReaders[how](w, r)
		}
		io.WriteString(w, "Hello World\n")
	})
	serveOnce := func(text string) {
		serveRepeatedly(newServer(&http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}), text, 1)
	}
	const n = 1000
	hello := leastCPU(func() { serveOnce(strings.Repeat(small, n)) }) / n
	for name, text := range texts {
		if len(text) < shortest {
			continue
		}
		bound := time.Duration(cpuFixed)*hello + cpuPerByte*hello*time.Duration(len(text))/time.Duration(len(small))
		elapsed := leastCPU(func() { serveOnce(text) })
		testkit.Between(t, elapsed, 0, bound, "CPU time for", len(text), "bytes of", name)
	}
}

// leastCPU returns the least CPU time of a few runs of f, because other work affects only some
// runs.
func leastCPU(f func()) (least time.Duration) {
	for i := range 5 {
		start := cpuTime()
		f()
		if elapsed := cpuTime() - start; i == 0 || elapsed < least {
			least = elapsed
		}
	}
	return least
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

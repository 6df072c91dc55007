package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A handler's locked thread and its profiler labels reach no other connection, on loops, on their
// runners, and on the goroutines that serve one connection after another.
func TestHandlersLeaveNoTraces(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/label":
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("left", "behind")))
		case "/lock":
			runtime.LockOSThread()
		}
		fmt.Fprintf(w, "%s %v.", ownLabels(), lockedThread())
	}
	const none = "none false."
	bothPaths(t, handle(handler), func(s *site) {
		request := func(c net.Conn, path string) string {
			io.WriteString(c, strings.Replace(get, "/ ", path+" ", 1))
			_, body, _ := strings.Cut(readResponses(s.T, c, 1), "\r\n\r\n")
			return body
		}
		others := []net.Conn{s.connect(), s.connect(), s.connect(), s.connect()} // some of them on the same loop
		for range 30 {
			c := s.connect()
			if got := request(c, "/"); got != none {
				s.Fatalf("a handler of a new connection sees %q", got)
			}
			if got := request(c, "/label"); got != `{"left":"behind"} false.` {
				s.Errorf("a handler sees of its own labels: %q", got)
			}
			for _, other := range others {
				if got := request(other, "/"); got != none {
					s.Fatalf("another handler sees %q", got)
				}
			}
			c.Close()
		}
		for _, runs := range []int{0, 200} { // off the loop, then on it
			for range runs {
				request(others[0], "/")
			}
			if got := request(s.connect(), "/lock"); got != "none true." {
				s.Fatalf("the handler has locked itself: %q", got)
			}
			for _, other := range others {
				testkit.WaitFor(s.T, "the locked thread to end", func() bool { return request(other, "/") == none })
			}
		}
	})
	testkit.WaitFor(t, "idle goroutines to end with the server",
		func() bool { return !strings.Contains(allStacks(), "reuse.(*Workers[") })
}

// ownLabels returns the labels of the calling goroutine from the goroutine profile. Other
// goroutines may still be between the end of a handler and the reset of its labels.
func ownLabels() string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(record, "engine_test.ownLabels") {
			continue
		}
		if _, labels, ok := strings.Cut(record, "# labels: "); ok {
			labels, _, _ = strings.Cut(labels, "\n")
			return labels
		}
		return "none"
	}
	return "not found"
}

func lockedThread() bool {
	b := make([]byte, 64)
	head, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("\n"))
	return bytes.Contains(head, []byte("locked to thread"))
}

// GOMAXPROCS may grow while the server runs: new connections use the new processors.
func TestShardsFollowGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, dial := siteOver(t, "tcp", &http.Server{ReadHeaderTimeout: 100 * time.Millisecond, IdleTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "done.")
		})})
	serves := func() {
		c := dial()
		defer c.Close()
		io.WriteString(c, get)
		readResponses(t, c, 1)
	}
	loops := func() int { return strings.Count(allStacks(), "poll.(*Loop).Wait") }
	serves()
	before := loops()
	runtime.GOMAXPROCS(3)
	kept := dial() // the server checks only while it has connections
	io.WriteString(kept, get)
	readResponses(t, kept, 1)
	for start := time.Now(); loops() < before+2; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d loops wait, after %d with one processor", loops(), before)
		}
		serves()
	}
	runtime.GOMAXPROCS(1)
	for range 20 {
		serves()
	}
}

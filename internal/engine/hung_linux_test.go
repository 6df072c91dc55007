package engine_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// GOMAXPROCS may grow while the server runs: new connections use the new processors.
func TestShardsFollowGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, dial := shardSite(t, &http.Server{ReadHeaderTimeout: 100 * time.Millisecond, IdleTimeout: time.Minute,
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

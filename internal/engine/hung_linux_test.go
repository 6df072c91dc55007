package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// onLoop reports whether the handler that calls it runs on a loop.
func onLoop() bool {
	b := make([]byte, 8<<10)
	return strings.Contains(string(b[:runtime.Stack(b, false)]), ".serveAsLeader(")
}

// trained returns a connection over which the paths were requested until they run on the loop.
func trained(t *testing.T, dial func() net.Conn, paths ...string) net.Conn {
	t.Helper()
	c := dial()
	for range 200 {
		for _, path := range paths {
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
			readResponses(t, c, 1)
		}
	}
	return c
}

// A route that was quick for long and then hangs leaves the loops after it has held up each of them
// once. None of its handlers needs to return for that.
func TestHungRouteLeavesAllLoops(t *testing.T) {
	const hung = 64
	release := make(chan bool)
	var hangs atomic.Bool
	var on, all atomic.Int32
	_, dial := shardSite(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() && r.URL.Path == "/hung" {
			if all.Add(1); onLoop() {
				on.Add(1)
			}
			<-release
		}
		io.WriteString(w, "done.")
	})})
	quick := trained(t, dial, "/hung", "/quick")
	hangs.Store(true)
	var clients []net.Conn
	for range hung {
		c := dial()
		io.WriteString(c, "GET /hung HTTP/1.1\r\nHost: a\r\n\r\n")
		clients = append(clients, c)
	}
	for start := time.Now(); all.Load() < hung; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d of %d requests have reached the handler", all.Load(), hung)
		}
	}
	if n := int(on.Load()); n > 2*runtime.GOMAXPROCS(0) {
		t.Errorf("%d of %d hung handlers ran on a loop", n, hung)
	}
	io.WriteString(quick, "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
	readResponses(t, quick, 1)
	close(release)
	for _, c := range clients {
		readResponses(t, c, 1)
	}
}

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

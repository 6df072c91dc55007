package engine_test

import (
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
)

// A worker that serves one connection after another carries nothing over from one handler to the
// next, and ends with the server.
func TestWorkersAreReusedWithoutTraces(t *testing.T) {
	settings := &http.Server{ConnState: func(net.Conn, http.ConnState) {},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			goroutine, _, _ := strings.Cut(string(stackHead()), " [")
			fmt.Fprintf(w, "%s %s %v.", goroutine, ownLabels(), lockedThread())
			switch r.URL.RawQuery {
			case "label":
				pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("left", "behind")))
			case "lock":
				runtime.LockOSThread()
			}
		})}
	s, dial := shardSite(t, settings)
	request := func(query string) (goroutine, rest string) {
		c := dial()
		defer c.Close()
		io.WriteString(c, "GET /?"+query+" HTTP/1.1\r\nConnection: close\r\n"+host+"\r\n")
		_, body, _ := strings.Cut(readResponses(t, c, 1), "\r\n\r\n")
		io.Copy(io.Discard, c) // until the server has closed it
		words := strings.SplitN(body, " ", 3)
		return strings.Join(words[:2], " "), words[2]
	}
	same := 0
	last := ""
	for range 50 {
		goroutine, rest := request("label")
		if rest != "none false." {
			t.Fatalf("another handler's labels are seen: %q", rest)
		}
		if goroutine == last {
			same++
		}
		last = goroutine
	}
	if same == 0 {
		t.Error("no goroutine was used again")
	}
	request("lock")
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, rest := request(""); rest == "none false." {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal("others are served by the locked thread")
		}
	}
	const loop = "netconn.(*Workers).run"
	if !strings.Contains(allStacks(), loop) {
		t.Error("no goroutine waits in " + loop)
	}
	s.Close()
	for start := time.Now(); strings.Contains(allStacks(), loop); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("idle goroutines outlive the server")
		}
	}
}

func lockedThread() bool { return strings.Contains(string(stackHead()), "locked to thread") }

func allStacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

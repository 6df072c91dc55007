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
	"syscall"
	"testing"
	"time"
)

// A thread that a handler has locked and changed is not used for other connections for long; it
// ends.
func TestLockedThreadsEnd(t *testing.T) {
	_, dial := shardSite(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "lock" {
			runtime.LockOSThread()
		}
		locked := lockedThread()
		fmt.Fprintf(w, "%v %d.", locked, syscall.Gettid())
	})})
	quick := dial()
	request := func(query string) string {
		io.WriteString(quick, "GET /?"+query+" HTTP/1.1\r\n"+host+"\r\n")
		_, body, _ := strings.Cut(readResponses(t, quick, 1), "\r\n\r\n")
		return body
	}
	for _, runs := range []int{0, 200} { // off the loop, then on it
		for range runs {
			request("")
		}
		if got := request("lock"); !strings.HasPrefix(got, "true ") {
			t.Fatalf("the handler locked itself: %s", got)
		}
		start := time.Now()
		for strings.HasPrefix(request(""), "true ") {
			if time.Since(start) > time.Minute {
				t.Fatal("others are served by the locked thread")
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func stackHead() []byte {
	b := make([]byte, 64)
	head, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("\n"))
	return head
}

// Profiler labels of a handler do not reach another connection.
func TestProfilerLabelsDoNotReachOtherConnections(t *testing.T) {
	_, dial := shardSite(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("label") {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("left", "behind")))
		}
		seen := ""
		if r.URL.Query().Has("look") {
			seen = ownLabels()
		}
		fmt.Fprintf(w, "%s.", seen)
	})})
	request := func(c net.Conn, query string) string {
		io.WriteString(c, "GET /?"+query+" HTTP/1.1\r\n"+host+"\r\n")
		_, body, _ := strings.Cut(readResponses(t, c, 1), "\r\n\r\n")
		return body
	}
	// some of them on the same loop
	labelled, others := dial(), []net.Conn{dial(), dial(), dial(), dial()}
	for range 30 {
		request(labelled, "label")
		for _, other := range others {
			if got := request(other, "look"); got != "none." {
				t.Fatalf("labels of another connection's handler are seen: %q", got)
			}
		}
	}
	if got := request(labelled, "label&look"); got != `{"left":"behind"}.` {
		t.Errorf("a handler sees of its own labels: %q", got)
	}
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

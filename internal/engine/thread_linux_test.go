package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A handler that locks its goroutine to a thread, and changes that, does not share it
// with other connections' handlers for long; the thread ends.
func TestLockedThreadsEnd(t *testing.T) {
	_, dial := shardSite(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "lock" {
			runtime.LockOSThread()
		}
		locked := strings.Contains(string(stackHead()), "locked to thread")
		fmt.Fprintf(w, "%v %d.", locked, syscall.Gettid())
	})})
	quick := dial()
	ask := func(query string) string {
		io.WriteString(quick, "GET /?"+query+" HTTP/1.1\r\n"+host+"\r\n")
		_, body, _ := strings.Cut(answers(t, quick, 1), "\r\n\r\n")
		return body
	}
	for _, runs := range []int{0, 200} { // off the loop, then on it
		for range runs {
			ask("")
		}
		if got := ask("lock"); !strings.HasPrefix(got, "true ") {
			t.Fatalf("the handler locked itself: %s", got)
		}
		start := time.Now()
		for strings.HasPrefix(ask(""), "true ") {
			if time.Since(start) > 10*time.Second {
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

// Profiler labels that a handler leaves behind are not those of another connection.
func TestLabelsDoNotSpread(t *testing.T) {
	_, dial := shardSite(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "label" {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("left", "behind")))
		}
		var profile bytes.Buffer
		if r.URL.RawQuery == "look" {
			pprof.Lookup("goroutine").WriteTo(&profile, 1)
		}
		fmt.Fprintf(w, "%v.", strings.Contains(profile.String(), `"left":"behind"`))
	})})
	labelled, other := dial(), dial()
	for range 100 {
		io.WriteString(labelled, "GET /?label HTTP/1.1\r\n"+host+"\r\n")
		answers(t, labelled, 1)
		io.WriteString(other, "GET / HTTP/1.1\r\n"+host+"\r\n")
		answers(t, other, 1)
	}
	io.WriteString(other, "GET /?look HTTP/1.1\r\n"+host+"\r\n")
	if got := answers(t, other, 1); !strings.HasSuffix(got, "\r\n\r\nfalse.") {
		t.Error("labels of another connection's handler are seen")
	}
}

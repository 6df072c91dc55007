package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// MN-46: goroutines that outlive their handler, and go on using its request and response, affect no
// other connection. Over FastCGI they also use the error stream: a record that one opens in another
// response would cut that response in two. Their writes race with the end of the handler, which is
// their own fault. The test therefore does not run with the race detector.
func TestLeftoverGoroutinesAffectNoOtherConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	testkit.NoRace(t, "the handlers here are racy, on purpose")
	var stop atomic.Bool
	var lateCalls sync.WaitGroup
	settings := handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leave" {
			lateCalls.Go(func() { useLate(w, r, &stop) })
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s%s.", r.URL.Path, b)
	})
	check := func(s *site, leave string, sendAndCheck func(id int, deadline time.Time)) {
		stop.Store(false)
		deadline := time.Now().Add(soak(time.Second, 30*time.Second))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for time.Now().Before(deadline) {
					c, err := s.dial()
					if err != nil {
						s.Error(err)
						return
					}
					io.WriteString(c, leave)
					c.SetDeadline(time.Now().Add(5 * time.Millisecond))
					c.Read(make([]byte, 1000))
					c.Close()
				}
			})
		}
		for i := range 4 {
			wg.Go(func() { sendAndCheck(i, deadline) })
		}
		wg.Wait()
		stop.Store(true)
		lateCalls.Wait()
	}
	t.Run("HTTP", func(t *testing.T) {
		bothPaths(t, settings, func(s *site) {
			check(s, "POST /leave HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhe",
				func(id int, deadline time.Time) { s.sendAndCheck(id, "hello", deadline) })
		})
	})
	t.Run("FastCGI", func(t *testing.T) {
		bothFCGIPaths(t, settings, func(s *fcgiSite) {
			leave := fcgiRequest{method: "POST", uri: "/leave", params: []string{"CONTENT_LENGTH", "5"}}
			check(s.site, leave.head()+rec(stdinStream, 1, "he"), s.sendAndCheck)
		})
	})
}

// useLate uses a request and its response after their handler has returned.
func useLate(w http.ResponseWriter, r *http.Request, stop *atomic.Bool) {
	control, errs := http.NewResponseController(w), stderrOf(w)
	evil := bytes.Repeat([]byte("EVIL"), 300)
	for i := 0; i < 2000 && !stop.Load(); i++ {
		switch i % 9 {
		case 2:
			if errs != nil {
				_, _ = errs.Write(evil)
			}
		case 3:
			_ = control.Flush()
		case 4:
			_ = control.SetReadDeadline(time.Unix(1, 0))
			_ = control.SetWriteDeadline(time.Unix(1, 0))
		case 5:
			_, _ = r.Body.Read(make([]byte, 100))
		case 6:
			_ = r.Context().Err()
		default:
			_, _ = w.Write(evil)
		}
		if i%50 == 0 {
			runtime.Gosched()
		}
	}
	defer func() { _ = recover() }() // Hijack panics
	_, _, _ = control.Hijack()
}

// sendAndCheck sends requests, with or without a body, and checks the responses until the deadline.
func (s *site) sendAndCheck(id int, body string, deadline time.Time) {
	c, err := s.dial()
	if err != nil {
		s.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(deadline.Add(time.Minute))
	for j := 0; time.Now().Before(deadline); j++ {
		path := fmt.Sprintf("/%d-%d", id, j)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, host, len(body), body)
		got, want := readResponses(s.T, c, 1), path+body+"."
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+want) {
			s.Errorf("got %q, want %s", got, want)
			return
		}
	}
}

// soak returns how long a test looks for rare events.
func soak(short, long time.Duration) time.Duration {
	if testkit.Slow() {
		return long
	}
	return short
}

// MN-46: a write that a slow reader blocks, in a goroutine that outlives its handler, ends with its
// own connection.
func TestLeftoverBlockedWriteEndsWithItsConnection(t *testing.T) {
	testkit.NoRace(t, "the handlers here are racy, on purpose")
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leave" {
			control := http.NewResponseController(w)
			control.Flush()
			begun := make(chan bool)
			go func() {
				close(begun)
				for range 100 {
					if _, err := w.Write(make([]byte, 1<<20)); err != nil {
						return
					}
				}
			}()
			<-begun
			time.Sleep(10 * time.Millisecond)
			return
		}
		fmt.Fprintf(w, "%s.", r.URL.Path)
	}), func(s *site) {
		deadline := time.Now().Add(soak(500*time.Millisecond, 10*time.Second))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for time.Now().Before(deadline) {
					c, err := s.dial()
					if err != nil {
						s.Error(err)
						return
					}
					io.WriteString(c, "GET /leave HTTP/1.1\r\n"+host+"\r\n")
					time.Sleep(15 * time.Millisecond)
					c.Close()
				}
			})
		}
		for i := range 2 {
			wg.Go(func() { s.sendAndCheck(i, "", deadline) })
		}
		wg.Wait()
	})
}

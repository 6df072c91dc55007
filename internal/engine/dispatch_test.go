package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// Dispatch selects where handlers run. Predicted depends on timing, which the predictor's own test
// covers.
func TestDispatchSelectsWhereHandlersRun(t *testing.T) {
	for name, dispatch := range map[string]engine.Dispatch{"loop": engine.OnLoop, "goroutine": engine.OwnGoroutine} {
		t.Run(name, func(t *testing.T) {
			l, dial := listen(t, "tcp", "127.0.0.1:0")
			s := engine.New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "where" {
					b := make([]byte, 8<<10)
					fmt.Fprint(w, bytes.Contains(b[:runtime.Stack(b, false)], []byte(".serveAsLeader(")))
				}
				io.WriteString(w, ".")
			})})
			s.Dispatch = dispatch
			served := goServe(s, l)
			defer func() { s.Close(); <-served }()
			c, err := dial()
			testkit.Must(t, err)
			defer c.Close()
			requests := func(n int) (onLoop int) {
				for range n {
					io.WriteString(c, "GET /?where HTTP/1.1\r\n"+host+"\r\n")
					if strings.HasSuffix(readResponses(t, c, 1), "\r\n\r\ntrue.") {
						onLoop++
					}
				}
				return onLoop
			}
			// a loop that got no processor has lost the lead, and its goroutine runs the handler
			if dispatch == engine.OnLoop {
				testkit.WaitFor(t, "a handler to run on the loop", func() bool { return requests(1) == 1 })
			} else {
				testkit.WaitFor(t, "handlers to run elsewhere", func() bool { return requests(100) == 0 })
			}
		})
	}
}

// BenchmarkPipelined sends sixteen requests at a time. On shards their responses are written
// together. On the goroutine path each is written separately.
func BenchmarkPipelined(b *testing.B) {
	const depth = 16
	for name, newServer := range map[string]func() server{
		"shards": func() server { return engine.New(&http.Server{Handler: http.HandlerFunc(recipeA)}) },
		"portable": func() server {
			return engine.New(&http.Server{Handler: http.HandlerFunc(recipeA),
				ConnState: func(net.Conn, http.ConnState) {}})
		},
		"net-http": func() server { return &http.Server{Handler: http.HandlerFunc(recipeA)} },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.Must(b, err)
			s := newServer()
			served := goServe(s, l)
			defer func() { s.Close(); <-served }()
			c, err := net.Dial("tcp", l.Addr().String())
			testkit.Must(b, err)
			defer c.Close()
			io.WriteString(c, get)
			response := make([]byte, 64<<10)
			size, err := c.Read(response) // the response is small and arrives whole
			testkit.Must(b, err)
			batch := strings.Repeat(get, depth)
			for b.Loop() {
				io.WriteString(c, batch)
				if _, err := io.ReadFull(c, response[:depth*size]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/request")
		})
	}
}

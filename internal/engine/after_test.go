package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// lateCalls are calls that a goroutine may make after its handler has returned.
var lateCalls = map[string]func(w http.ResponseWriter, r *http.Request){
	"WriteHeader": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	"early hints": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
	"Write":       func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "late") },
	"ReadFrom": func(w http.ResponseWriter, _ *http.Request) {
		w.(io.ReaderFrom).ReadFrom(strings.NewReader("late"))
	},
	"Flush": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	"SetReadDeadline": func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	},
	"SetWriteDeadline": func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	},
	"EnableFullDuplex": func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
	},
	"Hijack":      func(w http.ResponseWriter, _ *http.Request) { http.NewResponseController(w).Hijack() },
	"CloseNotify": func(w http.ResponseWriter, _ *http.Request) { w.(http.CloseNotifier).CloseNotify() },
	"Body.Read":   func(_ http.ResponseWriter, r *http.Request) { r.Body.Read(make([]byte, 1)) },
	"Body.Close":  func(_ http.ResponseWriter, r *http.Request) { r.Body.Close() },
	"Done":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"Err":         func(_ http.ResponseWriter, r *http.Request) { _ = r.Context().Err() },
	"Value": func(_ http.ResponseWriter, r *http.Request) {
		_ = fmt.Sprint(r.Context().Value(http.LocalAddrContextKey), r.Context().Value(http.ServerContextKey) != nil)
	},
	"Deadline": func(_ http.ResponseWriter, r *http.Request) { r.Context().Deadline() },
}

// Calls that a goroutine makes after its handler has returned affect neither the next request on
// the connection nor, once that has ended, another connection.
func TestCallsAfterHandlerReturnedAffectNoOtherRequest(t *testing.T) {
	for name, call := range lateCalls {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			// the response: later calls come after the handler
			received := make(chan bool, 100)
			bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if r.URL.Path == "/" {
					w.Header() // creates the Header
					wg.Go(func() {
						defer func() { _ = recover() }() // some panic, as in net/http
						<-received
						for range 20 {
							call(w, r)
						}
					})
				}
				fmt.Fprintf(w, "%s %v.", b, err)
			}), func(s *site) {
				for range 5 {
					c := s.connect()
					for range 5 {
						for _, request := range []string{get, post, strings.Replace(post, "/ ", "/next ", 1)} {
							io.WriteString(c, request)
							if got := readResponses(s.T, c, 1); !strings.Contains(got, " 200 ") ||
								!strings.HasSuffix(got, " <nil>.") {
								s.Fatalf("%q", got)
							}
							if !strings.Contains(request, "/next") {
								received <- true
							}
						}
					}
					c.Close()
				}
				wg.Wait()
			})
		})
	}
}

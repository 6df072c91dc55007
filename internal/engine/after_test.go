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

// http.CloseNotifier reports the client's departure, but neither a pipelined request nor the return
// of the handler.
func TestCloseNotifyReportsOnlyDeparture(t *testing.T) {
	departed := make(chan bool, 1)
	beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
		gone := w.(http.CloseNotifier).CloseNotify()
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/wait" {
			io.WriteString(w, "entered.")
			w.(http.Flusher).Flush()
			<-gone
			departed <- true
			return
		}
		time.Sleep(20 * time.Millisecond)
		select {
		case <-gone:
			t.Error("the client has not left")
		default:
		}
		io.WriteString(w, "fine.")
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, get+get)
		readResponses(s.T, c, 2)
		for _, request := range []string{get, post} {
			io.WriteString(c, strings.Replace(request, "/ ", "/wait ", 1))
			for b := make([]byte, 1); b[0] != '.'; {
				if _, err := c.Read(b); err != nil {
					s.Fatal(err)
				}
			}
			c.Close()
			select {
			case <-departed:
			case <-time.After(time.Minute):
				s.Fatal("no value")
			}
			c = s.connect()
		}
	})
}

// A request can hijack its connection after an earlier request has used CloseNotify.
func TestHijackWorksAfterCloseNotify(t *testing.T) {
	beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.(http.CloseNotifier).CloseNotify()
			io.WriteString(w, "fine.")
			return
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b := make([]byte, 4)
		_, err = io.ReadFull(rw, b)
		fmt.Fprintf(c, "%s %v", b, err)
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, get)
		readResponses(s.T, c, 1)
		io.WriteString(c, strings.Replace(get, "/ ", "/hijack ", 1)+"mine")
		if b, err := io.ReadAll(c); string(b) != "mine <nil>" {
			s.Errorf("%q %v", b, err)
		}
	})
}

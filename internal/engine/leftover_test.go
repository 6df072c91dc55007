package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// lateCalls are calls that a goroutine may make after its handler has returned.
var lateCalls = map[string]func(w http.ResponseWriter, r *http.Request){
	"WriteHeader": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	"early hints": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
	"Write":       func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, evilText) },
	"ReadFrom": func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, struct{ io.Reader }{strings.NewReader(evilText)})
	},
	"Stderr": func(w http.ResponseWriter, _ *http.Request) {
		if errs := stderrOf(w); errs != nil {
			io.WriteString(errs, evilText)
		}
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

var evilText = strings.Repeat("EVIL", 300)

// Calls that a goroutine makes after its handler has returned affect neither the next request on
// the connection nor, once that has ended, another connection.
func TestCallsAfterHandlerReturnedAffectNoOtherRequest(t *testing.T) {
	for name, call := range lateCalls {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			received := make(chan chan bool, 1) // of a request: is closed once its response has arrived
			bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if r.URL.Path == "/" {
					w.Header() // creates the Header
					isOver := make(chan bool)
					received <- isOver
					wg.Go(func() {
						defer func() { _ = recover() }() // some panic, as in net/http
						<-isOver
						for range 20 {
							call(w, r)
						}
					})
				}
				fmt.Fprintf(w, "%s %v.", b, err)
			}), func(s *site) {
				for range 3 {
					c := s.connect()
					for range 3 {
						for _, request := range []string{get, post, strings.Replace(post, "/ ", "/next ", 1)} {
							io.WriteString(c, request)
							if got := readResponses(s.T, c, 1); !strings.Contains(got, " 200 ") ||
								!strings.HasSuffix(got, " <nil>.") {
								s.Fatalf("%q", got)
							}
							if !strings.Contains(request, "/next") {
								close(<-received)
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

// CloseNotify does not report that a handler returns: programs log departures.
func TestCloseNotifyIgnoresReturns(t *testing.T) {
	notifies := make(chan (<-chan bool), 2)
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		notifies <- w.(http.CloseNotifier).CloseNotify()
		io.WriteString(w, ".")
	}), func(s *site) {
		c := s.connect()
		s.request(c, "/")
		s.request(c, "/")
		testkit.Equal(s, len(<-notifies), 0, "departures after the first handler has returned")
		<-notifies
	})
}

// Goroutines that outlive their handler, and go on using its request and response, affect no
// other connection, also if a slow reader blocks their writes. Over FastCGI they also use the
// error stream: a record that one opens in another response would cut that response in two.
func TestLeftoverGoroutinesAffectNoOtherConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	testkit.NoRace(t, "the handlers here are racy, on purpose")
	duration := time.Second / 2
	if testkit.Slow() {
		duration = 30 * time.Second
	}
	var stop atomic.Bool
	var left sync.WaitGroup
	settings := handle(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/leave":
			left.Go(func() { useLate(w, r, &stop) })
		case "/write":
			flush(w, r)
			begun := make(chan bool)
			left.Go(func() {
				close(begun)
				for err := error(nil); err == nil && !stop.Load(); {
					_, err = w.Write(make([]byte, 1<<20))
				}
			})
			<-begun
			time.Sleep(10 * time.Millisecond)
		default:
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s%s.", r.URL.Path, b)
		}
	})
	check := func(s *site, leave string, wait func(net.Conn), sendAndCheck func(id int, deadline time.Time)) {
		stop.Store(false)
		s.leaveAndCheck(duration, leave, wait, sendAndCheck)
		stop.Store(true)
		left.Wait()
	}
	reads := func(c net.Conn) {
		c.SetDeadline(time.Now().Add(5 * time.Millisecond))
		c.Read(make([]byte, 1000))
	}
	t.Run("HTTP", func(t *testing.T) {
		bothPaths(t, settings, func(s *site) {
			check(s, "POST /leave HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhe", reads,
				func(id int, deadline time.Time) { s.sendAndCheck(id, "hello", deadline) })
			check(s, target("/write"), func(net.Conn) { time.Sleep(15 * time.Millisecond) },
				func(id int, deadline time.Time) { s.sendAndCheck(id, "", deadline) })
		})
	})
	t.Run("FastCGI", func(t *testing.T) {
		bothFCGIPaths(t, settings, func(s *fcgiSite) {
			leave := fcgiRequest{method: "POST", uri: "/leave", params: []string{"CONTENT_LENGTH", "5"}}
			check(s.site, leave.head()+rec(stdinStream, 1, "he"), reads, s.sendAndCheck)
		})
	})
}

// leaveAndCheck makes clients send a request on new connections, wait, and leave, while others send
// requests and check the responses.
func (s *site) leaveAndCheck(duration time.Duration, leave string, wait func(net.Conn),
	sendAndCheck func(id int, deadline time.Time)) {
	deadline := time.Now().Add(duration)
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { sendAndCheck(i, deadline) })
		clients.Go(func() {
			for time.Now().Before(deadline) {
				c := testkit.Value(s.dial())(s)
				io.WriteString(c, leave)
				wait(c)
				c.Close()
			}
		})
	}
	clients.Wait()
}

func useLate(w http.ResponseWriter, r *http.Request, stop *atomic.Bool) {
	for i := 0; i < 100 && !stop.Load(); i++ {
		for name, call := range lateCalls {
			if name != "Hijack" && name != "CloseNotify" { // which panic
				call(w, r)
			}
		}
		runtime.Gosched()
	}
	defer func() { _ = recover() }()
	lateCalls["Hijack"](w, r)
}

// sendAndCheck sends POSTs, with or without a body, and checks the responses until the deadline.
func (s *site) sendAndCheck(id int, body string, deadline time.Time) {
	for c, j := s.connect(), 0; time.Now().Before(deadline) && !s.Failed(); j++ {
		path := fmt.Sprintf("/%d-%d", id, j)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, host, len(body), body)
		testkit.Matches(s, readResponses(s.T, c, 1), "^HTTP/1.1 200 OK\r\n(.+\r\n)+\r\n"+path+body+"[.]$")
	}
}

// What a handler keeps does not change. In builds with the poison tag all reused memory is
// overwritten, so that this test detects anything that refers to it.
func TestKeptRequestsDoNotChange(t *testing.T) {
	var mu sync.Mutex
	kept := make(map[*http.Request]string)
	describe := func(r *http.Request) string {
		return fmt.Sprintf("%s %s %v %v %s %v", r.Method, r.RequestURI, r.URL, r.Header, r.Host, r.Trailer)
	}
	everyClient(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		kept[r] = describe(r)
		w.Write(b)
	}, func(s *site) {
		clear(kept)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				for j := range 20 {
					req := testkit.Value(http.NewRequest("POST", fmt.Sprintf("%s/%d/%d?q=%d", s.url, i, j, j),
						io.MultiReader(strings.NewReader("body"))))(s)
					req.Header = http.Header{"X-Own": {strings.Repeat(fmt.Sprint(i, j), j)}, "Custom-Name": {"x"}}
					req.Trailer = http.Header{"Sum": {fmt.Sprint(j)}}
					resp := testkit.Value(s.client.Do(req))(s)
					testkit.Reads(s, resp.Body, "body")
					resp.Body.Close()
				}
			})
		}
		clients.Wait()
		for r, text := range kept {
			testkit.Equal(s, describe(r), text)
			testkit.Fails(r.Body.Read(make([]byte, 1)))(s, "", "a later Read of the body")
		}
		testkit.Equal(s, len(kept), 80, "requests")
	})
}

// endings are ways for a handler to end without returning.
var endings = map[string]func(){
	"panic":  func() { panic("on purpose") },
	"abort":  func() { panic(http.ErrAbortHandler) },
	"goexit": runtime.Goexit,
	"nil":    func() { var m map[string]int; m["a"] = 1 }, //nolint:staticcheck // the panic under test
}

// exchangeAborted is exchangeText for a request after which the server closes the connection. The
// client does not close its side: over TLS that sends an alert, and one that arrives after the
// server has closed resets the connection, with net/http too, so that the end of the response is
// lost.
func (s *site) exchangeAborted(text string) string {
	s.Helper()
	c := s.connect()
	io.WriteString(c, text)
	return readAllOf(s.T, c)
}

// Panics and Goexit of a handler end its connection, or its stream. Other requests are served.
func TestAbortedHandlerEndsNoOtherRequest(t *testing.T) {
	everyClient(t, func(w http.ResponseWriter, r *http.Request) {
		if end := endings[r.URL.RawQuery]; end != nil {
			end()
		}
		io.WriteString(w, "done.")
	}, func(s *site) {
		for how := range endings {
			for range 5 {
				if _, err := s.client.Get(s.url + "/?" + how); err == nil || os.IsTimeout(err) {
					s.Fatalf("%s: %v, want the end of the response", how, err)
				}
				testkit.Equal(s, s.get("/"), "done.", "after", how)
			}
		}
	})
}

// Handlers that block hold up no other request, neither of their connection nor of another, also if
// their loops expected them to be quick.
func TestBlockedHandlersHoldUpNoOtherRequest(t *testing.T) {
	const blocked = 4 // on each loop
	for _, path := range []string{"/sleep", "/body", "/output"} {
		t.Run(path, func(t *testing.T) {
			entered, release := make(chan bool, blocked), make(chan bool)
			everyClient(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path {
					entered <- true
				}
				switch r.URL.Path {
				case "/sleep":
					<-release
				case "/body":
					io.Copy(io.Discard, r.Body)
				case "/output":
					w.Write(make([]byte, 6<<20)) // more than the client's window
				}
				io.WriteString(w, r.URL.Path)
			}, func(s *site) {
				isOver := make(chan bool)
				var clients sync.WaitGroup
				for range blocked {
					clients.Go(func() {
						body, end := io.Pipe()
						go func() { <-isOver; end.Close() }()
						response := testkit.Value(s.client.Post(s.url+path, "a/b", body))(s)
						<-isOver
						io.Copy(io.Discard, response.Body)
						response.Body.Close()
					})
					<-entered
				}
				for range 20 {
					testkit.Equal(s, s.get("/quick"), "/quick")
				}
				close(isOver)
				for range blocked {
					if path == "/sleep" {
						release <- true
					}
				}
				clients.Wait()
			})
		})
	}
}

package engine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// inBubble runs a server and one client connection in synthetic time.
func inBubble[S server](t *testing.T, newServer func(*http.Server) S, settings *http.Server,
	test func(t *testing.T, s S, c *testkit.MemConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		s := newServer(settings)
		done := goServe(s, nw.Listen())
		c := testkit.Value(nw.Dial())(t)
		test(t, s, c)
		c.Close()
		s.Close()
		<-done
		pass(time.Second) // net/http may linger on the connection for half of it
	})
}

// timed is what tests of both protocols in synthetic time send.
type timed struct {
	newServer func(*http.Server) server
	get       string
	// the beginnings of requests with bodies, and what their client then sends each second
	unread   []string
	trickle  string
	silences []silence
}

func timedProtocols() map[string]timed {
	const head = "POST / HTTP/1.1\r\nHost: a\r\n"
	return map[string]timed{
		"HTTP": {httpServer, get, []string{head + "Content-Length: 1000\r\n\r\n",
			head + "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
			head + "Transfer-Encoding: chunked\r\n\r\n"}, "",
			silences(get, []string{"G", "E", "T"}, posted("Content-Length: 9", ""), "ab")},
		"FastCGI": {fcgiServer, aGET("/"), []string{sized(1000) + rec(stdinStream, 1, "x"),
			sized(1000) + rec(stdinStream, 1, "01234567")[:12],
			fcgiRequest{method: "POST"}.head() + rec(stdinStream, 1, "x")}, rec(stdinStream, 9, "other"),
			fcgiSilences()},
	}
}

// pass advances synthetic time and waits for everything that results.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A silence is a client that sends pieces, a second apart, and then nothing more.
type silence struct {
	name     string
	settings *http.Server
	send     []string
	want     time.Duration // until the server closes the connection; -1 for never
}

// silences returns those of both protocols, of the first pieces of a head, and of a request whose body
// does not arrive.
func silences(get string, head []string, body string, more string) []silence {
	const second = time.Second
	return []silence{
		{"default: nothing sent", &http.Server{}, nil, 30 * second},
		{"default: part of a head", &http.Server{}, head, 27 * second},
		{"ReadHeaderTimeout", &http.Server{ReadHeaderTimeout: 5 * second}, head, 2 * second},
		{"ReadTimeout bounds heads", &http.Server{ReadTimeout: 5 * second}, head[:1], 4 * second},
		{"ReadHeaderTimeout wins", &http.Server{ReadTimeout: 5 * second, ReadHeaderTimeout: 7 * second}, head[:1],
			6 * second},
		{"second head", &http.Server{ReadHeaderTimeout: 5 * second}, []string{get, "", head[0], head[1]}, 3 * second},
		{"IdleTimeout", &http.Server{IdleTimeout: 5 * second}, []string{get}, 4 * second},
		{"IdleTimeout starts anew", &http.Server{IdleTimeout: 5 * second}, []string{get, "", get, "", get}, 4 * second},
		{"ReadTimeout bounds idleness", &http.Server{ReadTimeout: 9 * second}, []string{get}, 8 * second},
		{"ReadTimeout bounds bodies", &http.Server{ReadTimeout: 5 * second, IdleTimeout: 60 * second},
			[]string{body, more}, 3 * second},
		{"no bound on idleness", &http.Server{}, []string{get}, -1},
	}
}

var readsAll = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, readAll(w, r)) })

// A request that never becomes complete times out, and so does an idle connection.
func TestIncompleteRequestTimesOut(t *testing.T) {
	for protocol, p := range timedProtocols() {
		for _, test := range p.silences {
			t.Run(protocol+"/"+test.name, func(t *testing.T) {
				test.settings.Handler = readsAll
				inBubble(t, p.newServer, test.settings, func(t *testing.T, _ server, c *testkit.MemConn) {
					for _, piece := range test.send {
						io.WriteString(c, piece)
						pass(time.Second)
					}
					if test.want < 0 {
						pass(1000 * time.Hour)
						_, closed := c.Received()
						testkit.Equal(t, closed, false, "closed")
						return
					}
					start := time.Now()
					c.SetReadDeadline(start.Add(time.Hour))
					io.Copy(io.Discard, c)
					testkit.Equal(t, time.Since(start), test.want, "closed after")
				})
			})
		}
	}
}

// The same holds on shards, which have another clock, and over TLS. All wait at the same time.
func TestWaitingConnectionsTimeOut(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, mode := range []string{"tcp", "ServeTLS"} {
		for protocol, p := range timedProtocols() {
			for _, test := range p.silences {
				least := time.Duration(len(test.send))*time.Second + test.want
				if test.want < 0 || least > 10*time.Second {
					continue
				}
				test.settings.Handler = readsAll
				s := startSite(t, mode, test.settings, p.newServer)
				all.Go(func() {
					start := time.Now() // the server starts to wait later
					c := s.connect()
					for _, piece := range test.send {
						io.WriteString(c, piece)
						time.Sleep(time.Second)
					}
					io.Copy(io.Discard, c)
					testkit.Between(t, time.Since(start), least*9/10, 25*time.Second, // the default is 30
						mode, protocol, test.name, "closed after")
				})
			}
		}
	}
}

// WriteTimeout ends a handler whose client does not read, and the handler gets an error.
func TestWriteTimeoutEndsHandler(t *testing.T) {
	for protocol, p := range timedProtocols() {
		t.Run(protocol, func(t *testing.T) {
			var failed error
			var after time.Duration
			settings := &http.Server{WriteTimeout: 5 * time.Second,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					start := time.Now()
					testkit.Check(t, w.(connection.SendTimer).SetSendTimeout(time.Minute)) // which changes nothing
					for failed == nil {
						_, failed = w.Write(make([]byte, 10000))
					}
					after = time.Since(start)
					testkit.Equal(t, r.Context().Err(), context.Canceled, "after the failed write")
					if protocol == "FastCGI" {
						testkit.Fails(stderrOf(w).Write(make([]byte, 10000)))(t, "", "writing errors after a failed write")
					}
				})}
			inBubble(t, p.newServer, settings, func(t *testing.T, _ server, c *testkit.MemConn) {
				io.WriteString(c, p.get)
				pass(time.Minute)
				testkit.Equal(t, after, 5*time.Second, "until a write fails")
			})
		})
	}
}

// What arrives while a handler uses its context is the next request, also if it comes in pieces, or
// behind one that has filled the input buffer. The watch neither loses it nor cancels the context.
func TestDepartureWatchKeepsNextRequest(t *testing.T) {
	const first = "GET /1 HTTP/1.1\r\nHost: a\r\nX: "
	entered, proceed := make(chan context.Context), make(chan bool)
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		testkit.Equal(t, r.Context().Err(), nil, "at the beginning")
		entered <- r.Context()
		<-proceed
		testkit.Equal(t, r.Context().Err(), nil, "while the client waits")
		io.WriteString(w, r.Method+r.URL.Path+".")
	}), func(s *site) {
		for _, size := range []int{0, 4 << 10, 16 << 10} {
			c := s.connect()
			io.WriteString(c, first+strings.Repeat("x", max(0, size-len(first)-len("\r\n\r\n")))+"\r\n\r\n")
			for _, pieces := range [][]string{{"G", "ET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HT"},
				{"TP/1.1\r\nHost: a\r\n\r\n"}, nil} {
				ctx := <-entered
				for _, piece := range pieces {
					io.WriteString(c, piece)
					time.Sleep(5 * time.Millisecond) // so that the piece most likely arrives alone
				}
				proceed <- true
				<-ctx.Done() // after the handler has returned
				testkit.Equal(s, ctx.Err(), context.Canceled)
			}
			testkit.Matches(s, readResponses(s.T, c, 3), "(?s)GET/1[.].*GET/2[.].*GET/3[.]$", "with a head of", size)
		}
	})
}

// The end of the base context cancels requests, before and while their handlers run.
func TestEndOfBaseContextCancelsRequests(t *testing.T) {
	for _, early := range []bool{true, false} {
		base, cancel := context.WithCancel(context.Background())
		var got error
		settings := handle(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			got = r.Context().Err()
		})()
		settings.BaseContext = func(net.Listener) context.Context { return base }
		inBubble(t, engine.New, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
			if early {
				cancel()
			}
			io.WriteString(c, get)
			synctest.Wait()
			cancel()
			synctest.Wait()
			testkit.Equal(t, got, context.Canceled, "ended early", early)
		})
	}
}

// A connection that ends is read for a limited time, whether its client sends without pause or
// stays silent. Shutdown waits for half a second at most.
func TestLingerIsLimited(t *testing.T) {
	const step, size = 10 * time.Millisecond, 1 << 30
	upload := fmt.Sprintf("POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n", host, size)
	closing := "GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"
	type limits struct {
		limit, timeout time.Duration // 0 is the default
		always         bool
	}
	long, short := 20*time.Second, 2*time.Second
	for name, test := range map[string]struct {
		text  string
		set   limits
		sends bool
		stops bool // Shutdown is called
		want  time.Duration
	}{
		"malformed":       {"bad\r\n", limits{}, true, false, 5 * time.Second},
		"upload":          {upload, limits{}, true, false, 5 * time.Second},
		"silent":          {upload, limits{}, false, false, time.Second / 2},
		"own limits":      {upload, limits{long, short, false}, true, false, long},
		"own, silent":     {upload, limits{long, short, false}, false, false, short},
		"none":            {upload, limits{-1, 0, false}, true, false, 0},
		"complete":        {closing, limits{long, short, false}, false, false, 0},
		"always":          {closing, limits{long, short, true}, false, false, short},
		"Shutdown":        {upload, limits{long, long, false}, true, true, time.Second / 2},
		"Shutdown, quiet": {upload, limits{long, long, false}, false, true, time.Second / 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := func(w http.ResponseWriter, _ *http.Request) {
				if test.set != (limits{}) {
					testkit.Check(t, w.(connection.ResponseWriter).SetLinger(test.set.limit, test.set.timeout, test.set.always))
				}
				w.WriteHeader(http.StatusForbidden)
			}
			inBubble(t, engine.New, &http.Server{Handler: http.HandlerFunc(h)},
				func(t *testing.T, s *engine.Server, c *testkit.MemConn) {
					start := time.Now()
					io.WriteString(c, test.text)
					synctest.Wait()
					if test.stops {
						go func() { _ = s.Shutdown(context.Background()) }()
					}
					for open := int64(1); open > 0 && time.Since(start) < time.Minute; _, open = s.Connections() {
						if test.sends {
							_, _ = io.WriteString(c, "more")
						}
						pass(step)
					}
					testkit.Between(t, time.Since(start), test.want, test.want+2*step)
					if b, closed := c.Received(); !closed || !strings.HasPrefix(string(b), "HTTP/1.1 4") {
						t.Errorf("closed=%v %q", closed, b)
					}
				})
		})
	}
}

// contextUses are ways for a handler to wait for the end of its context.
var contextUses = map[string]http.HandlerFunc{
	"/done": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"/err": func(_ http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	},
	"/after": func(_ http.ResponseWriter, r *http.Request) {
		done := make(chan bool)
		context.AfterFunc(r.Context(), func() { close(done) })
		<-done
	},
	"/notify": func(w http.ResponseWriter, r *http.Request) {
		<-w.(http.CloseNotifier).CloseNotify()
		<-r.Context().Done()
	},
	"/derived": func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		<-ctx.Done()
	},
	"/deadlines": func(w http.ResponseWriter, r *http.Request) { // which expire while the context is in use
		done := r.Context().Done()
		after(readAll, "read past", "write past")(w, r)
		<-done
	},
}

// The context is canceled when the client leaves, however the handler uses it, before or after it
// has read the body. The client may also leave before the handler uses the context.
func TestDepartureCancelsContextOnBothPaths(t *testing.T) {
	entered, proceed, ended := make(chan bool), make(chan bool), make(chan error, 1)
	settings := handle(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_ = r.Context().Err()
		}
		io.Copy(io.Discard, r.Body)
		entered <- true
		<-proceed
		contextUses[r.URL.Path](w, r)
		ended <- r.Context().Err()
	})
	leave := func(in *testing.T, connect func() net.Conn, request string) {
		for _, early := range []bool{false, true} {
			if t.Failed() {
				return // each of the others might wait for a minute
			}
			what := fmt.Sprintf("%.40q, early %v", request, early)
			c := connect()
			io.WriteString(c, request)
			testkit.Receive(in, entered, what)
			if early {
				c.Close()
			}
			proceed <- true
			c.Close()
			testkit.Equal(in, testkit.Receive(in, ended, what), context.Canceled, what)
		}
	}
	for path := range contextUses {
		someModes(t, settings, func(s *site) {
			for _, request := range []string{get, post, chunked, strings.Replace(post, "POST", "PUT", 1)} {
				leave(s.T, s.connect, strings.Replace(request, "/ ", path+" ", 1))
			}
		}, "tcp", "net.Conn", "tls", "ServeTLS")
		everyFCGIMode(t, settings, func(s *fcgiSite) {
			for _, r := range []fcgiRequest{{uri: path}, {uri: path, once: true},
				{method: "PUT", uri: path, body: "hello", length: true}} {
				leave(s.T, s.connect, r.String())
			}
		})
	}
}

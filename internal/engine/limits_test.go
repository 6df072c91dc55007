package engine_test

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// The limits of what one connection may make the server allocate, whatever it sends.
const (
	allocatedFixed   = 64 << 10
	allocatedPerByte = 100
)

// hostile returns inputs that are small for their potential cost: rejected ones, valid ones, and
// ones whose cost grows with each byte.
func hostile() map[string]string {
	all := map[string]string{
		"fields":            withField(strings.Repeat("a:\r\n", 489) + "a:"),
		"different fields":  withField(strings.ReplaceAll(numbered(490), ",", ":\r\n") + ":"),
		"trailer names":     posted("Transfer-Encoding: chunked\r\nTrailer: "+numbered(499), "0\r\n\r\n"),
		"trailer commas":    posted("Transfer-Encoding: chunked\r\nTrailer: "+strings.Repeat(",", 60000), "0\r\n\r\n"),
		"connection commas": withField("Connection: " + strings.Repeat(",", 60000)),
		"expect commas":     withField("Expect: " + strings.Repeat(",", 60000)),
		"cookies":           withField("Cookie: " + strings.Repeat("a=;", 20000)),
		"query":             target("/?" + strings.Repeat("a&", 30000)),
		"path":              target("/" + strings.Repeat("../", 20000)),
		"escapes":           target("/" + strings.Repeat("%41", 20000)),
		"one-byte chunks":   chunkedPost + strings.Repeat("1\r\na\r\n", 10000) + "0\r\n\r\n",
		"trailer fields":    chunkedPost + "0\r\n" + strings.Repeat("a:\r\n", 499) + "\r\n",
		"pipelined":         strings.Repeat("GET / HTTP/1.1\r\nHost:a\r\n\r\n", 2000),
		"pipelined posts":   strings.Repeat("POST / HTTP/1.1\r\nHost:a\r\nContent-Length:1\r\n\r\nx", 2000),
		"pipelined chunks": strings.Repeat("POST / HTTP/1.1\r\nHost:a\r\nTransfer-Encoding:chunked\r\n\r\n0\r\n\r\n",
			1000),
		"large head":       withField("X: " + strings.Repeat("x", 900<<10)),
		"too large a head": withField("X: " + strings.Repeat("x", 2<<20)),
		"empty lines":      strings.Repeat("\r\n", 30000),
		"nothing":          "",
		"large body":       posted("Content-Length: 9223372036854775807", strings.Repeat("x", 1<<20)),
		"large chunk":      chunkedPost + "7fffffffffffffff\r\n" + strings.Repeat("x", 1<<20),
	}
	for _, a := range heads {
		all[a.name] = a.text
	}
	for _, a := range chunks {
		all[a.name] = chunkedPost + a.text
	}
	for name, pieces := range requests {
		all[name] = joined(pieces)
	}
	return all
}

// What a client makes the server allocate is in proportion to what it sends.
func TestClientsCannotAmplifyAllocation(t *testing.T) {
	testkit.Long(t, "it measures memory")
	testkit.NoRace(t, "it allocates, too")
	check := func(name, text string, newServer func(*http.Server) server, readers ...string) {
		t.Run(name, func(t *testing.T) {
			bound := uint64(allocatedFixed + allocatedPerByte*len(text))
			for _, how := range readers {
				got := allocatedFor(newServer, bodyReaders[how], text)
				// other allocations appear only in some of the runs
				for i := 0; i < 3 && got > bound; i++ {
					got = min(got, allocatedFor(newServer, bodyReaders[how], text))
				}
				testkit.Between(t, got, 0, bound, how, "bytes allocated")
			}
		})
	}
	for name, text := range hostile() {
		check("HTTP/"+name, text, httpServer, "read", "unread")
	}
	for name, text := range hostileFCGI() {
		check("FastCGI/"+name, text, fcgiServer, slices.Sorted(maps.Keys(bodyReaders))...)
	}
}

func allocatedFor(newServer func(*http.Server) server, h http.Handler, text string) uint64 {
	var before, after runtime.MemStats
	s := newServer(&http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)})
	runtime.GC()
	runtime.ReadMemStats(&before)
	serveRepeatedly(s, text, 1)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// serveRepeatedly serves a connection that sends text n times, each after the last response.
func serveRepeatedly(s server, text string, n int) {
	c := &repeater{closed: make(chan bool), text: text, left: n}
	served := goServe(s, &oneListener{new(testkit.Network).Listen(), c})
	<-c.closed
	s.Close()
	<-served
}

// repeater is a connection that sends the same text several times, and discards the output.
type repeater struct {
	net.Conn
	once       sync.Once
	closed     chan bool
	text, rest string
	left       int
}

func (c *repeater) Read(p []byte) (int, error) {
	for ; c.rest == ""; c.left-- {
		if c.left == 0 {
			return 0, io.EOF
		}
		c.rest = c.text
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *repeater) Write(p []byte) (int, error)      { return len(p), nil }
func (c *repeater) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *repeater) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *repeater) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *repeater) SetDeadline(time.Time) error      { return nil }
func (c *repeater) SetReadDeadline(time.Time) error  { return nil }
func (c *repeater) SetWriteDeadline(time.Time) error { return nil }

// oneListener is a listener that accepts one connection more.
type oneListener struct {
	net.Listener
	conn net.Conn
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	return l.Listener.Accept()
}

// The same over shards, with the whole corpus at once, because the test cannot measure a single
// connection.
func TestSocketsCannotAmplifyAllocation(t *testing.T) {
	testkit.NoRace(t, "it allocates, too")
	bothPaths(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, struct{ io.Reader }{r.Body})
	}), func(s *site) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		bound := uint64(0)
		for _, text := range hostile() {
			c := s.connect()
			go func() { io.WriteString(c, text); c.(*net.TCPConn).CloseWrite() }()
			io.Copy(io.Discard, struct{ io.Reader }{c})
			c.Close()
			bound += uint64(allocatedFixed + allocatedPerByte*len(text))
		}
		runtime.ReadMemStats(&after)
		testkit.Between(s, after.TotalAlloc-before.TotalAlloc, 0, bound, "bytes allocated")
	})
}

// A client that pipelines without pause and reads nothing takes little memory, until
// WriteTimeout ends its connection.
func TestEndlessPipeliningIsLimited(t *testing.T) {
	testkit.Long(t, "it sends many requests")
	var calls atomic.Int64
	bothPaths(t, func() *http.Server {
		return &http.Server{WriteTimeout: 500 * time.Millisecond,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Write(make([]byte, 1000))
			})}
	}, func(s *site) {
		calls.Store(0)
		before := testkit.InUse()
		s.sendUnread(strings.Repeat(get, 1000))
		more := max(0, int64(testkit.InUse())-int64(before))
		testkit.Between(s, more, 0, 8<<20, "more bytes in use after", calls.Load(), "requests")
	})
}

// Thousands of slow clients and web servers, in any phase, hold memory in proportion to their
// number. They run in another process, because this one has descriptors for only one side.
func TestSlowClientsHoldMemoryInProportion(t *testing.T) {
	n, perConn := 400, 32<<10
	if testkit.Race {
		perConn *= 3
	}
	if testkit.Slow() {
		n = 10_000
	}
	settings := handle(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	check := func(s *site, protocol string) {
		first := s.connect()
		before := testkit.InUse()
		line, _ := play(s.T, "TestClientsThatTrickle", fmt.Sprint(protocol, " ", n, " ", first.RemoteAddr()))
		testkit.Equal(s, line, "trickling\n")
		each := (int64(testkit.InUse()) - int64(before)) / int64(n)
		s.Logf("%d connections take %d bytes each", n, each)
		testkit.Between(s, max(0, each), 0, int64(perConn), "bytes for each connection")
	}
	bothPaths(t, settings, func(s *site) {
		check(s, "HTTP")
		testkit.Equal(s, s.get("/"), "", "others are not served")
	})
	bothFCGIPaths(t, settings, func(s *fcgiSite) {
		check(s.site, "FastCGI")
		testkit.Equal(s, s.roundTrip(aGET("/")).body, "", "others are not served")
	})
}

// TestClientsThatTrickle is the role of clients that begin a request and then send little.
func TestClientsThatTrickle(t *testing.T) {
	var n int
	var protocol, addr string
	testkit.Value(fmt.Sscan(roleArguments(t), &protocol, &n, &addr))(t)
	upload := sized(1000) + padded(stdinStream, 1, strings.Repeat("x", 100), 100)
	phases := map[string][]string{
		"HTTP": {"GET / HTTP/1.1\r\nHost: a\r\nX: ", posted("Content-Length: 1000000", ""),
			chunkedPost + "fffff\r\n"},
		"FastCGI": {upload[:4], upload[:12], upload[:20], upload[:len(upload)-198], upload[:len(upload)-100]},
	}[protocol]
	var conns []net.Conn
	for i := range n {
		c := testkit.Value(net.Dial("tcp", addr))(t)
		conns = append(conns, c)
		io.WriteString(c, phases[i%len(phases)])
	}
	for range 3 {
		for _, c := range conns {
			io.WriteString(c, "x")
		}
	}
	time.Sleep(50 * time.Millisecond) // so that the last byte is received
	fmt.Println("trickling")
	io.Copy(io.Discard, os.Stdin) // until the other process has measured
}

// Draining a body is limited in time, whatever deadlines are set, and so is what precedes the
// records of a body.
func TestDrainIsLimitedInTime(t *testing.T) {
	ownDeadline := func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour))
	}
	for protocol, p := range timedProtocols() {
		for name, h := range map[string]http.HandlerFunc{"nothing": leaveBody["nothing"],
			"flushed": leaveBody["flushed"], "duplex": leaveBody["duplex"], "own deadline": ownDeadline} {
			for i, text := range p.unread {
				t.Run(fmt.Sprint(protocol, "/", name, i), func(t *testing.T) {
					set := &http.Server{Handler: h}
					inBubble(t, p.newServer, set, func(t *testing.T, _ server, c *testkit.MemConn) {
						io.WriteString(c, text)
						start := time.Now()
						var client sync.WaitGroup
						defer client.Wait()
						client.Go(func() {
							for range 32 {
								time.Sleep(time.Second)
								io.WriteString(c, p.trickle)
							}
						})
						b, err := io.ReadAll(c)
						if elapsed := time.Since(start); elapsed > 31*time.Second || err != nil ||
							!strings.Contains(string(b), " 200 OK\r\n") {
							t.Errorf("%q, %v after %v", b, err, elapsed)
						}
					})
				})
			}
		}
	}
}

// A goroutine that still waits for the body does not delay the response; http.TimeoutHandler
// leaves such a goroutine.
func TestTimeoutHandlerDoesNotWaitForBody(t *testing.T) {
	slowBody := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for protocol, p := range timedProtocols() {
		for _, text := range p.unread {
			settings := &http.Server{Handler: http.TimeoutHandler(slowBody, time.Second, "too slow")}
			inBubble(t, p.newServer, settings, func(t *testing.T, _ server, c *testkit.MemConn) {
				io.WriteString(c, text)
				pass(2 * time.Second)
				if b, _ := c.Received(); !strings.Contains(string(b), "503 Service Unavailable") ||
					protocol == "HTTP" && !strings.Contains(string(b), "Connection: close") {
					t.Errorf("%q: %q", text, b)
				}
			})
		}
	}
}

// A panic ends the connection even if a goroutine of its handler waits for the body, or for room to
// write, or if the client has no room for what the handler has written.
func TestPanicEndsConnectionDespitePendingCalls(t *testing.T) {
	for name, wait := range map[string]func(http.ResponseWriter, *http.Request){
		"read":  func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		"write": func(w http.ResponseWriter, _ *http.Request) { writeForever(w) },
		"full":  inTurn(write(zeroBytes(64<<10-1000)), write(zeroBytes(2000))), // which waits until the panic
	} {
		t.Run(name, func(t *testing.T) {
			settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				go wait(w, r)
				time.Sleep(time.Second)
				panic(http.ErrAbortHandler)
			})}
			inBubble(t, engine.New, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
				io.WriteString(c, "POST / HTTP/1.1\r\n"+host+"Content-Length: 1000\r\n\r\n")
				pass(7 * time.Second)
				_, closed := c.Received()
				testkit.Equal(t, closed, true, "the connection is closed")
				synctest.Wait()
			})
		})
	}
}

// Budgets for the allocations of a request, beyond those of an empty loop: the exchange, the head's
// string, and the map. A response field adds its map's two parts and the value's slice. A browser's
// head needs a larger map, a slice for the values, and strings for names that the codec does not
// know.
var (
	budgetSmallGET = spending{3, 784}
	budgetHeader   = spending{3, 416}
	budgetBrowser  = spending{7, 2424}
)

type spending struct{ objects, bytes float64 }

func (s spending) plus(more spending) spending {
	return spending{s.objects + more.objects, s.bytes + more.bytes}
}

// spent measures what run allocates for each of its n iterations.
func spent(run func(n int)) spending {
	const n = 2000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	total := func(n int) spending {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(n)
		runtime.ReadMemStats(&after)
		return spending{float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)}
	}
	least := func(n int) spending { // other allocations appear only in some of the runs
		s := total(n)
		for range 2 {
			again := total(n)
			s.objects, s.bytes = min(s.objects, again.objects), min(s.bytes, again.bytes)
		}
		return s
	}
	total(n) // warms up
	once, twice := least(n), least(2*n)
	return spending{(twice.objects - once.objects) / n, (twice.bytes - once.bytes) / n}
}

func TestRequestsAllocateLittle(t *testing.T) {
	testkit.Long(t, "it measures many requests")
	testkit.NoRace(t, "it allocates")
	body := []byte("Hello World\n")
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	withField := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Write(body)
	})
	for _, test := range []struct {
		name      string
		newServer func(*http.Server) server
		request   string
		handler   http.Handler
		budget    spending
	}{
		{"small GET", httpServer, get, plain, budgetSmallGET},
		{"small GET, a field in the response", httpServer, get, withField, budgetSmallGET.plus(budgetHeader)},
		{"browser's GET", httpServer, testkit.BrowserGET(), withField, budgetBrowser.plus(budgetHeader)},
		{"FastCGI, small GET", fcgiServer, listed(likeNginx...), plain, budgetSmallFCGI},
		{"FastCGI, small GET, a field in the response", fcgiServer, listed(likeNginx...), withField,
			budgetSmallFCGI.plus(budgetHeader)},
		{"FastCGI, browser's GET", fcgiServer, browserByFCGI(), withField, budgetBrowserFCGI.plus(budgetHeader)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := spent(func(n int) {
				serveRepeatedly(test.newServer(&http.Server{Handler: test.handler}), test.request, n)
			})
			t.Logf("%.2f allocations of %.0f bytes a request", got.objects, got.bytes)
			testkit.Between(t, got.objects, 0, test.budget.objects+0.1, "allocations") // some are the runtime's
			testkit.Between(t, got.bytes, 0, test.budget.bytes+8, "bytes")
		})
	}
}

func httpServer(settings *http.Server) server { return engine.New(settings) }

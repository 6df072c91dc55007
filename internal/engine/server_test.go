package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

func awaitOpen(t *testing.T, s *engine.Server, n int64) {
	t.Helper()
	testkit.WaitFor(t, "connections to open or close", func() bool {
		_, open := s.Connections()
		return open == n
	})
}

// Connections are counted while they wait and while they are served, but not after they have closed
// or were hijacked. So are the requests of each. A handler that takes one receives the type of
// package net.
func TestConnectionsAreCounted(t *testing.T) {
	began := time.Now()
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		info := connection.Of(context.WithValue(r.Context(), http.ServerContextKey, nil))
		if opened := info.Opened(); opened.Before(began.Add(-time.Second)) || time.Since(opened) < 0 {
			t.Errorf("opened at %v", opened)
		}
		if n := info.CountRequest(); r.URL.Path != "/taken" {
			fmt.Fprint(w, n, ".")
			return
		}
		c := hijacked(t, w)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\n%T %v.", c, r.TLS != nil)
		c.Close()
	}), func(s *site) {
		await := func(accepted, open int64) {
			s.Helper()
			testkit.WaitFor(s.T, fmt.Sprintf("%d connections, %d open", accepted, open), func() bool {
				a, o := s.server.Connections()
				return a == accepted && o == open
			})
		}
		await(0, 0)
		conns := []net.Conn{s.connect(), s.connect(), s.connect()}
		for _, c := range conns {
			for n := range 30 {
				testkit.Contains(s, s.request(c, "/"), fmt.Sprintf("\r\n\r\n%d.", n+1))
			}
		}
		await(3, 3)
		testkit.Contains(s, s.request(s.connect(), "/taken"), map[string]string{
			"tcp": "*net.TCPConn false.", "net.Conn": "*net.TCPConn false.", "unix": "*net.UnixConn false.",
			"tls": "*tls.Conn true.", "ServeTLS": "*tls.Conn true.", "memory": "*testkit.MemConn false.",
		}[s.mode])
		await(4, 3)
		conns[0].Close()
		conns[1].Close()
		await(4, 1)
	})
}

// A connection is counted as reading while a part of a head has arrived: not before, and not while
// its request is served.
func TestPartialHeadsAreCounted(t *testing.T) {
	everyMode(t, handle(func(w http.ResponseWriter, _ *http.Request) {}), func(s *site) {
		await := func(n int64) {
			s.Helper()
			testkit.WaitFor(s.T, fmt.Sprintf("%d partial heads", n), func() bool { return s.server.Reading() == n })
		}
		connect := func(send string) net.Conn {
			c := s.connect()
			io.WriteString(c, send)
			return c
		}
		const request = "GET / HTTP/1.1\r\nHost: host\r\n\r\n"
		connect("")
		first := connect("G")
		second := connect(request + "GET / HTTP/1.1\r\nHo")
		third := connect("\r\n")
		await(3)
		io.WriteString(first, "ET / HT")
		await(3)
		io.WriteString(first, "TP/1.1\r\nHost: host\r\n\r\n")
		await(2)
		second.Close()
		await(1)
		io.WriteString(third, "GET /\r\n\r\n") // it is malformed
		await(0)
		io.WriteString(first, "PO")
		await(1)
		s.server.Close()
		await(0)
	})
}

// flaky is a listener whose Accept fails, as in a process out of descriptors. In turns it accepts a
// connection each other time.
type flaky struct {
	net.Listener
	network *testkit.Network
	inTurns bool
	calls   int
}

func (l *flaky) Accept() (net.Conn, error) {
	if l.calls++; !l.inTurns || l.calls%2 == 1 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	go func() {
		if c, err := l.network.Dial(); err == nil {
			c.Close()
		}
	}()
	return l.Listener.Accept()
}

// Errors of Accept that repeat are logged with longer and longer delays as by net/http, and apart
// from that every 10 seconds, also if Accept succeeds in between. net/http's own tests show that
// Serve goes on.
func TestRepeatedAcceptErrorsAreLoggedRarely(t *testing.T) {
	for _, inTurns := range []bool{true, false} {
		synctest.Test(t, func(*testing.T) {
			var nw testkit.Network
			var logged testkit.Log
			s := engine.New(&http.Server{ErrorLog: log.New(&logged, "", 0)})
			served := goServe(s, &flaky{nw.Listen(), &nw, inTurns, 0})
			time.Sleep(30 * time.Second)
			s.Close()
			<-served
			testkit.Between(t, strings.Count(logged.String(), "http: Accept error: accept: "), 3, 9+3,
				"lines in 30 seconds, in turns", inTurns)
		})
	}
}

// Refused is called for each request that no handler sees, and for no other. If it panics, that
// neither ends the process nor costs a client its responses.
func TestRefusedRequestsAreReported(t *testing.T) {
	const good = "GET /good HTTP/1.1\r\n" + host + "\r\n"
	for _, c := range []struct{ name, send, want string }{
		{"bad line", "hello there\r\n\r\n", "hello there|||400"},
		{"behind an empty line", "\r\n\x16\x03\x01\r\n", "\x16\x03\x01|||400"},
		{"two hosts", "GET /x?y HTTP/1.1\r\nHost: a\r\nUser-Agent: ua\r\nHost: b\r\n\r\n",
			"GET /x?y HTTP/1.1|/x?y a|ua|400"},
		{"bad field", "POST /x HTTP/1.0\r\nHost: a\r\nX Y: z\r\nUser-Agent: ua\r\n\r\n", "POST /x HTTP/1.0|/x a||400"},
		{"two framings", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
			"POST /x HTTP/1.1|/x a||400"},
		{"bad target", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%zz HTTP/1.1|/%zz ||400"},
		{"user in target", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://u@a/ HTTP/1.1|http://u@a/ ||400"},
		{"host of target", "GET http://a/x HTTP/1.1\r\nHost: b\r\nX\r\n\r\n",
			"GET http://a/x HTTP/1.1|http://a/x a||400"},
		{"expectation", "GET /x HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "GET /x HTTP/1.1|/x a||417"},
		{"version", "GET /x HTTP/2.0\r\nHost: a\r\n\r\n", "GET /x HTTP/2.0|||505"},
		{"large head", "GET /x HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n",
			"GET /x HTTP/1.1|/x a||431"},
		{"large line", "GET /" + strings.Repeat("x", 9000) + " HTTP/1.1\r\n" + host + "\r\n", "GET /" +
			strings.Repeat("x", 8187) + "|||414"},
		{"behind another", good + "bad\r\n\r\n", "bad|||400"},
		{"cut off", "GET /x HT", "GET /x HT|||400"},
		{"cut off behind another", good + "GET /x HTTP/1.1\r\nHost: a\r\nUser", "GET /x HTTP/1.1|/x a||400"},
		{"nothing", "", ""},
		{"nothing behind another", good, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantReports(t, c.want, 0, func(s *site) {
				got, want := s.exchangeText(c.send), strings.Count(c.send, good)
				if c.want != "" {
					want++
				}
				testkit.Equal(s, strings.Count(got, "HTTP/1.1 "), want, "responses")
			}, "tcp", "net.Conn", "unix", "tls", "ServeTLS")
		})
	}
	// A head that is late is reported. A client that sends nothing is not.
	for send, want := range map[string]string{
		"GET /x HT": "GET /x HT|||408", get + "GET /y": "GET /y|||408", "\r\n": "|||408", "": "",
		"GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: ua\r\n": "GET /x HTTP/1.1|/x a|ua|408",
	} {
		t.Run(fmt.Sprintf("late %q", send), func(t *testing.T) {
			t.Parallel()
			testkit.Long(t, "it waits for a timeout")
			wantReports(t, want, time.Second/2, func(s *site) { s.exchangeAborted(send) }, "tcp", "net.Conn")
		})
	}
}

// wantReports fails unless a server reports these requests of a client. timeout limits how long it
// waits for a request.
func wantReports(t *testing.T, want string, timeout time.Duration, client func(*site), modes ...string) {
	t.Helper()
	var reports *testkit.Log
	someServers(t, handle(func(http.ResponseWriter, *http.Request) {}), func(s *engine.Server, set *http.Server) {
		reports = new(testkit.Log)
		s.Refused = func(r engine.Refusal) {
			fmt.Fprint(reports, describeRefusal(t, r))
			panic("hook's")
		}
		set.MaxHeaderBytes, set.ReadHeaderTimeout, set.IdleTimeout = 4000, timeout, timeout
	}, func(s *site) {
		client(s)
		testkit.Equal(s, reports.String(), want, "reported before the connection ends")
		testkit.Equal(s, strings.Contains(s.logged.String(), "hook's"), want != "", "the log has the hook's panic")
	}, modes...)
}

func describeRefusal(t *testing.T, r engine.Refusal) string {
	if r.Request.RemoteAddr == "" || r.Request.URL == nil || r.Request.Header == nil ||
		r.Request.Context().Value(http.LocalAddrContextKey) == nil {
		t.Errorf("%+v", r.Request)
	}
	where := r.Request.RequestURI
	if where != "" {
		where += " " + r.Request.Host
	}
	return fmt.Sprintf("%s|%s|%s|%d", r.Line, where, r.Request.UserAgent(), r.Status)
}

const badHead = "bad\r\n\r\n"

// Each of several calls of Shutdown returns when the last connection closes.
func TestAllCallsOfShutdownReturnTogether(t *testing.T) {
	var release chan bool
	set := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}
	inBubble(t, engine.New, set, func(t *testing.T, s *engine.Server, c *testkit.MemConn) {
		release = make(chan bool)
		io.WriteString(c, get)
		synctest.Wait()
		ended := make(chan error)
		for range 2 {
			go func() { ended <- s.Shutdown(t.Context()) }()
		}
		synctest.Wait()
		start := time.Now()
		close(release)
		c.Close()
		for range 2 {
			if err := <-ended; err != nil || time.Since(start) > 0 {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
	})
}

// hookLog records what the hooks of a server receive that has one client. It fails the test if a
// state follows the last one, or comes before ConnContext was called.
type hookLog struct {
	*testing.T
	mu     sync.Mutex
	conn   net.Conn // that ConnContext received
	states []string
	then   func(http.ConnState) // is called with each state; may be nil
}

type connKey struct{}

func (h *hookLog) connContext(ctx context.Context, c net.Conn) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	testkit.Equal(h, h.conn == nil, true, "ConnContext is called once")
	h.conn = c
	return context.WithValue(ctx, connKey{}, c)
}

func (h *hookLog) connState(c net.Conn, s http.ConnState) {
	h.mu.Lock()
	if c != h.conn || len(h.states) == 0 && s != http.StateNew || slices.Contains(h.states, "closed") {
		h.Errorf("state %v of %v after %v of %v", s, c, h.states, h.conn)
	}
	h.states = append(h.states, s.String())
	then := h.then
	h.mu.Unlock()
	if then != nil {
		then(s)
	}
}

// await waits until the last state is this one, and returns all.
func (h *hookLog) await(state string) (all string) {
	h.Helper()
	testkit.WaitFor(h, state, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		all = strings.Join(h.states, " ")
		return strings.HasSuffix(all, state)
	})
	return all
}

type hookCase struct {
	set    func(s *http.Server)
	client func(c *hookClient)
}

type hookClient struct {
	*testing.T
	net.Conn
	reader *bufio.Reader
	log    *hookLog
	server server
}

// send writes pieces, each when the response to the one before has arrived.
func (c *hookClient) send(pieces ...string) {
	for _, p := range pieces {
		io.WriteString(c, p)
		resp, err := http.ReadResponse(c.reader, nil)
		if err != nil {
			return
		}
		io.Copy(io.Discard, resp.Body)
	}
}

// idle makes a request, after which the connection waits.
func (c *hookClient) idle() { c.send(get); c.log.await("idle") }

func (c *hookClient) awaitEnd() { io.Copy(io.Discard, c.reader) }

func (c *hookClient) shutdown() error {
	return c.server.(interface{ Shutdown(context.Context) error }).Shutdown(c.Context())
}

const postUnread = "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: "

var hookCases = map[string]hookCase{
	"pipelined":    {nil, func(c *hookClient) { c.send(get+get+get, "", ""); c.log.await("idle") }},
	"post":         {nil, func(c *hookClient) { c.send(post, get) }},
	"unread":       {nil, func(c *hookClient) { c.send(postUnread + "9\r\n\r\n123456789") }},
	"large unread": {nil, func(c *hookClient) { c.send(postUnread + "9999999\r\n\r\n") }},
	"in bytes": {nil, func(c *hookClient) {
		for i := range len(get) - 1 {
			io.WriteString(c, get[i:i+1])
		}
		c.send(get[len(get)-1:], get)
	}},
	"cut off": {nil, func(c *hookClient) { io.WriteString(c, "GET / HT"); closeWriteOf(c.Conn); c.awaitEnd() }},
	"panic":   {nil, func(c *hookClient) { c.send(target("/?panic")); c.awaitEnd() }},
	"abort":   {nil, func(c *hookClient) { c.send(get, target("/?abort")); c.awaitEnd() }},
	"reset": {nil, func(c *hookClient) {
		c.idle()
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
	}},
	"idle timeout": {func(s *http.Server) { s.IdleTimeout = bound },
		func(c *hookClient) { c.send(get); c.awaitEnd() }},
	"head timeout": {func(s *http.Server) { s.ReadHeaderTimeout = bound },
		func(c *hookClient) { io.WriteString(c, "GET / "); c.awaitEnd() }},
	"close while idle":    {nil, func(c *hookClient) { c.idle(); c.server.Close(); c.awaitEnd() }},
	"close while new":     {nil, func(c *hookClient) { c.log.await("new"); c.server.Close(); c.awaitEnd() }},
	"shutdown while idle": {nil, func(c *hookClient) { c.idle(); testkit.Check(c, c.shutdown()); c.awaitEnd() }},
	"no keep-alives": {nil, func(c *hookClient) {
		c.log.await("new")
		c.server.(interface{ SetKeepAlivesEnabled(bool) }).SetKeepAlivesEnabled(false)
		c.send(get)
		c.awaitEnd()
	}},
	"wait while idle":         {nil, func(c *hookClient) { c.waitForShutdown(http.StateIdle, get, "") }},
	"wait, pipelined":         {nil, func(c *hookClient) { c.waitForShutdown(http.StateIdle, get+get, "") }},
	"wait, request meanwhile": {nil, func(c *hookClient) { c.waitForShutdown(http.StateIdle, get, get) }},
	"wait while closed":       {nil, func(c *hookClient) { c.waitForShutdown(http.StateClosed, getOld, "") }},
}

// waitForShutdown sends requests, of which one has a response, and makes the hook wait for Shutdown
// in a state, after another request was sent.
func (c *hookClient) waitForShutdown(at http.ConnState, requests, meanwhile string) {
	ended := make(chan error, 1)
	c.log.mu.Lock()
	c.log.then = func(s http.ConnState) {
		if s == at {
			io.WriteString(c, meanwhile)
			ended <- c.shutdown()
		}
	}
	c.log.mu.Unlock()
	io.WriteString(c, requests)
	testkit.Check(c, <-ended)
	testkit.Equal(c, strings.Count(readAllOf(c.T, c), "200 OK"), 1, "responses")
}

// The hooks are called as by net/http: with the same connections, in the same order and as
// often. A request's context is that of its connection. net/http's own tests show the usual
// cases. A hook may wait for Shutdown when its connection is idle or closed, even if the client
// has sent another request meanwhile.
func TestHooksAreCalledAsByNetHTTP(t *testing.T) {
	for _, mode := range []string{"tcp", "ServeTLS"} {
		for name, how := range hookCases {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				if how.set != nil {
					testkit.Long(t, "it waits for a timeout")
				}
				testkit.Equal(t, playHooks(t, mode, "tare", how), playHooks(t, mode, "net/http", how))
			})
		}
	}
}

func playHooks(t *testing.T, mode, by string, how hookCase) string {
	t.Helper()
	set := handle(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); !ok || c.RemoteAddr().String() != r.RemoteAddr {
			t.Errorf("the context has %v; the client is %s", c, r.RemoteAddr)
		}
		readsAtPath(w, r)
	})()
	if how.set != nil {
		how.set(set)
	}
	h := &hookLog{T: t}
	set.ConnContext, set.ConnState = h.connContext, h.connState
	var s server
	c := startSite(t, mode, set, func(set *http.Server) server {
		s = makers[by](set)
		return s
	}).connect()
	how.client(&hookClient{t, c, bufio.NewReader(c), h, s})
	c.Close()
	return h.await("closed") + fmt.Sprintf(" %T", h.conn)
}

// A hook that panics while a handler takes the connection ends that connection only, although the
// response has begun and the request's body has not arrived.
func TestHookThatPanicsInHijackEndsItsConnection(t *testing.T) {
	someServers(t, handle(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "done.")
		if r.Method == "POST" {
			http.NewResponseController(w).Flush()
			http.NewResponseController(w).Hijack()
		}
	}), func(_ *engine.Server, set *http.Server) {
		set.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				panic("hook")
			}
		}
	}, func(s *site) {
		c := s.connect()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\nabc")
		bufio.NewReader(c).ReadByte()
		s.request(s.connect(), "/")
		c.Close()
		testkit.Check(s, s.server.Shutdown(t.Context()))
	}, "net.Conn", "tls")
}

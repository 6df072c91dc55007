package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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
	if h.conn != nil {
		h.Errorf("ConnContext is called twice")
	}
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

func (c *hookClient) awaitEnd() { io.Copy(io.Discard, c.reader) }

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
		c.send(get)
		c.log.await("idle")
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
	}},
	"idle timeout": {func(s *http.Server) { s.IdleTimeout = bound },
		func(c *hookClient) { c.send(get); c.awaitEnd() }},
	"head timeout": {func(s *http.Server) { s.ReadHeaderTimeout = bound },
		func(c *hookClient) { io.WriteString(c, "GET / "); c.awaitEnd() }},
	"close while idle": {nil, func(c *hookClient) {
		c.send(get)
		c.log.await("idle")
		c.server.Close()
		c.awaitEnd()
	}},
	"close while new": {nil, func(c *hookClient) { c.log.await("new"); c.server.Close(); c.awaitEnd() }},
	"shutdown while idle": {nil, func(c *hookClient) {
		c.send(get)
		c.log.await("idle")
		c.server.(interface{ Shutdown(context.Context) error }).Shutdown(context.Background())
		c.awaitEnd()
	}},
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
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			io.WriteString(c, meanwhile)
			ended <- c.server.(interface{ Shutdown(context.Context) error }).Shutdown(ctx)
		}
	}
	c.log.mu.Unlock()
	io.WriteString(c, requests)
	testkit.Check(c, <-ended)
	testkit.Equal(c, strings.Count(readAllOf(c.T, c), "200 OK"), 1, "responses")
}

// hookHandler fails the test if a request's context is not the one of its connection.
func hookHandler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); !ok || c.RemoteAddr().String() != r.RemoteAddr {
			t.Errorf("the context has %v; the client is %s", c, r.RemoteAddr)
		}
		readsAtPath(w, r)
	})
}

// The hooks are called as by net/http: with the same connections, in the same order and as often.
// net/http's own tests show the usual cases. A hook may wait for Shutdown when its connection is idle
// or closed, even if the client has sent another request meanwhile.
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
	set := &http.Server{Handler: hookHandler(t)}
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
	someModes(t, func() *http.Server {
		return &http.Server{
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateHijacked {
					panic("hook")
				}
			},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "done.")
				if r.Method == "POST" {
					http.NewResponseController(w).Flush()
					http.NewResponseController(w).Hijack()
				}
			}),
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

package shard

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h1"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// testServer serves a listener on shards as the engine's Server does.
type testServer struct {
	state     exchange.ServerState
	exchanges exchange.Config
	config    Config
	group     *Group
	stop      sync.Once
	closed    chan struct{}
}

// newTestServer returns a server of l's connections. Its handler responds with the client's address
// if it is nil. config is nil without TLS.
func newTestServer(t *testing.T, l net.Listener, handler http.HandlerFunc, config *tls.Config) *testServer {
	t.Helper()
	if handler == nil {
		handler = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }
	}
	s := &testServer{closed: make(chan struct{})}
	s.state.Logf = func(string, ...any) {}
	s.state.ConnClosed = make(chan struct{}, 1)
	s.state.KeepAlivesDisabled = new(atomic.Bool)
	s.exchanges = exchange.Config{
		Server: &s.state, Protocol: h1.Protocol(), Handler: handler,
		BaseContext: context.Background(), HeadTimeout: time.Minute, IdleTimeout: time.Minute,
		Limits: http1.Limits{Bytes: 1 << 20, Fields: 1000}, ServesHTTP1: true,
		TLS: config, HandshakeTimeout: 10 * time.Minute,
	}
	s.config.Listener, s.config.Exchanges, s.config.HTTP2 = l, &s.exchanges, h2.NewConfig(&s.exchanges, nil, 0)
	// for tests that place connections themselves
	s.config.conns = exchange.NewConns(&s.exchanges, inSize, true)
	s.config.origin = &origin{&s.config, s.exchanges.BaseContext}
	s.group = testkit.Value(NewGroup(&s.state, s.stopIfUnused))(t)
	return s
}

func (s *testServer) serve() {
	for accept := s.group.Accept(&s.config, s.closed); ; {
		switch err := accept(); {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(time.Millisecond)
		}
	}
}

func (s *testServer) stopListening() {
	s.stop.Do(func() {
		s.state.Closing.Store(true)
		if l := s.config.Listener; l != nil {
			l.Close()
		}
		close(s.closed)
	})
}

func (s *testServer) Close() {
	s.state.Aborted.Store(true)
	s.stopListening()
	s.group.CloseAll()
	s.stopIfUnused()
}

func (s *testServer) stopIfUnused() {
	if s.state.Closing.Load() && s.group.Open() == 0 {
		s.group.Stop()
	}
}

// Shutdown closes the listener, and waits until no connection is open.
func (s *testServer) Shutdown(ctx context.Context) error {
	s.stopListening()
	for s.group.CloseIdle() > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// turns returns how often the loops have reported events.
func (s *testServer) turns() (n uint32) {
	for _, shard := range s.group.allShards() {
		n += shard.turns.Load()
	}
	return n
}

// site is a server whose connections are accepted by shards if they arrive fast.
type site struct {
	*testing.T
	server   *testServer
	listener net.Listener
	served   chan bool // receives a value when the server no longer accepts
}

func serveOn(t *testing.T, l net.Listener, handler http.HandlerFunc, apply ...func(*Config)) *site {
	t.Helper()
	s := newTestServer(t, l, handler, nil)
	for _, f := range apply {
		f(&s.config)
	}
	return startSite(t, l, s)
}

func onLoop(c *Config) { c.Dispatch = OnLoop }

func startSite(t *testing.T, l net.Listener, server *testServer) *site {
	s := &site{t, server, l, make(chan bool, 1)}
	go func() {
		s.server.serve()
		s.served <- true
	}()
	t.Cleanup(s.server.Close)
	return s
}

func tcpListener(t *testing.T) net.Listener {
	t.Helper()
	return testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
}

func (s *site) try() (c net.Conn, body string, err error) {
	c, err = net.Dial(s.listener.Addr().Network(), s.listener.Addr().String())
	if err == nil {
		body, err = request(c)
	}
	return c, body, err
}

func request(c net.Conn) (body string, err error) {
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err = io.WriteString(c, firstRequest); err != nil {
		return "", err
	}
	return (&client{in: bufio.NewReader(c)}).response()
}

// connect makes a connection, and a request on it. The connection stays open until the test ends.
func (s *site) connect() *client {
	s.Helper()
	c := newClient(s.T, s.listener)
	testkit.Value(request(c))(s)
	return c
}

type client struct {
	*net.TCPConn
	in *bufio.Reader
}

// newClient connects to a listener until the end of the test.
func newClient(t *testing.T, l net.Listener) *client {
	t.Helper()
	nc := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return &client{nc.(*net.TCPConn), bufio.NewReader(nc)}
}

func (c *client) request(path, fields string) {
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, fields)
}

func (c *client) response() (string, error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func (c *client) want(t testing.TB, body string) {
	t.Helper()
	testkit.Equal(t, testkit.Value(c.response())(t), body)
}

func (c *client) get(t *testing.T) {
	t.Helper()
	c.request("/", "")
	c.want(t, "done")
}

// keepBusy makes clients do something again and again. stop returns when they have ended.
func (s *site) keepBusy(clients int, do func()) (stop func()) {
	var all sync.WaitGroup
	var ended atomic.Bool
	for range clients {
		all.Go(func() {
			for !ended.Load() && !s.Failed() {
				do()
			}
		})
	}
	return func() { ended.Store(true); all.Wait() }
}

func (s *site) byShards() int {
	return int(s.server.state.AcceptedConns.Load()) - int(s.server.group.nextShard.Load())
}

// reachShards makes connections until a shard accepts one.
func (s *site) reachShards() {
	s.Helper()
	before := s.byShards()
	testkit.WaitFor(s, "a shard to accept", func() bool {
		c, _, err := s.try()
		testkit.Must(s, err)
		c.Close()
		return s.byShards() > before
	})
}

// placeConn puts a connection on a shard. It returns nil if it was closed.
func (s *testServer) placeConn(on *shard, fd int) *shardConn {
	if k := newShardConn(on, s.config.origin, fd, ""); s.group.put(k) {
		return k
	}
	return nil
}

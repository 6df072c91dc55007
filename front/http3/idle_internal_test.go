package http3

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/internal/testkit"
)

// post sends a request whose response is an echo.
func post(t *testing.T, c *http3.Transport, addr string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr, strings.NewReader("text"))
	testkit.Must(t, err)
	resp, err := c.RoundTrip(req)
	testkit.Must(t, err)
	resp.Body.Close()
}

// one returns the only connection of a server.
func (s *socketServer) one(t *testing.T) (c *connection) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) != 1 {
		t.Fatalf("%d connections", len(s.open))
	}
	for c = range s.open {
	}
	return c
}

// idleState is a part of a connection's state.
type idleState struct {
	requests            int
	isRetired, isClosed bool
}

// state returns the state. If expires is set, the idle time ends then.
func (c *connection) state(expires bool) idleState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if expires {
		c.idleEnd = time.Now()
	}
	return idleState{c.requests, c.isRetired, c.isClosed}
}

// The end of the idle time retires a connection: a request that is on its way is not lost. It does
// nothing if a request has begun, or has just ended.
func TestIdleConnectionIsRetiredFirst(t *testing.T) {
	t.Parallel()
	s := start(t, nil, listenUDP(t))
	client := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer client.Close()
	addr := s.conn.LocalAddr().String()
	post(t, client, addr)
	c := s.one(t)
	testkit.WaitFor(t, "the end of the request", func() bool { return c.state(false).requests == 0 })
	c.endIdle()
	if state := c.state(true); state.isRetired || state.isClosed {
		t.Error("a connection is retired although a request has just ended")
	}
	if !c.begin() {
		t.Fatal("a request is rejected")
	}
	c.endIdle()
	if state := c.state(false); state.isRetired || state.isClosed {
		t.Error("a connection is retired during a request")
	}
	c.end()
	c.state(true)
	c.endIdle()
	if state := c.state(false); !state.isRetired || state.isClosed {
		t.Error("an idle connection is not retired, or closed at once")
	}
	select {
	case <-c.quic.Context().Done():
	case <-time.After(time.Minute):
		t.Error("the retired connection stays open")
	}
	post(t, client, addr)
}

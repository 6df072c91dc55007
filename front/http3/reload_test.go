package http3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// waiting is a handler whose requests wait.
type waiting struct{ begun, finish chan struct{} }

func newWaiting() *waiting { return &waiting{make(chan struct{}, 1), make(chan struct{})} }

func (h *waiting) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.begun <- struct{}{}
	<-h.finish
	_, _ = io.WriteString(w, "finished")
}

// begin starts a request that waits. Its result is the body, or an error.
func (s *site) begin(c *http.Client, app *waiting) (result chan string) {
	result = make(chan string, 1)
	go func() {
		body := ""
		resp, err := c.Get("https://" + s.addr + "/app")
		if err == nil {
			defer resp.Body.Close()
			var b []byte
			b, err = io.ReadAll(resp.Body)
			body = string(b)
		}
		if err != nil {
			body = err.Error()
		}
		result <- body
	}()
	testkit.Receive(s, app.begun, "the request")
	return result
}

// A reload applies to the next request. If settings of connections change at an address, its
// connections end after their requests, and no others do. No request is lost.
func TestReloadAppliesToTheNextRequest(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	app := newWaiting()
	const both = `server { listen ADDR quic; location / { return 200 first; } location /app { proxy_pass http://app; } }
		server { listen OTHER quic; return 200 other; }`
	s := serve(t, both, server.Bind("app", app))
	c, dialed := s.http3Client(nil)
	testkit.Equal(t, s.get(c, "/"), "first")
	other, dialedOther := s.http3Client(nil)
	s.getFrom(other, s.otherAddr(), "/")
	result := s.begin(c, app)
	next := strings.Replace(both, "first", "second", 1)
	s.reload(next)
	testkit.Equal(t, s.get(c, "/"), "second", "after the reload")
	testkit.Equal(t, len(dialed.String()), 1, "connections")
	for n, change := range []string{
		"client_header_timeout 30s;", "keepalive_timeout 30s;", "http3_max_concurrent_streams 7;",
		"ssl_session_tickets off;",
		"ssl_verify_client optional; ssl_client_certificate DIR/cert.pem;", "server_name x.example;",
	} {
		s.reload(strings.Replace(next, "quic;", "quic; "+change, 1))
		testkit.WaitFor(s, "another connection", func() bool { s.get(c, "/"); return len(dialed.String()) >= n+2 })
	}
	s.getFrom(other, s.otherAddr(), "/")
	testkit.Equal(t, len(dialedOther.String()), 1, "connections to another address than the changed one")
	close(app.finish)
	testkit.Equal(t, <-result, "finished", "a request during the reload")
}

// After a reload requests of before end within worker_shutdown_timeout, also at an address that is
// removed, and perhaps added again by a configuration without the limit.
func TestShutdownTimeoutEndsWhatAReloadLeaves(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 2)
	app := newWaiting()
	s := serve(t, "server { listen ADDR quic; location /app { proxy_pass http://app; } } server { listen OTHER quic; }",
		server.Bind("app", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			app.begun <- struct{}{}
			<-r.Context().Done()
			ended <- struct{}{}
		})))
	const blocks = "server { listen ADDR quic; location /app { proxy_pass http://app; } }"
	const other = "server { listen OTHER quic; }"
	for _, next := range [][]string{{blocks}, {other}, {other, blocks}} {
		s.main = "worker_shutdown_timeout 100ms;\n"
		s.reload(blocks)
		c, _ := s.http3Client(nil)
		result := s.begin(c, app)
		s.main = ""
		for _, config := range next {
			s.reload(config)
		}
		testkit.Receive(t, ended, "the end of a request of before")
		testkit.Contains(t, <-result, "Get ", "the error of a request of before")
	}
}

// Addresses of a port share its socket. Each has its own hosts and limits, also after a reload.
func TestAddressesOfAPortHaveTheirOwnLimits(t *testing.T) {
	t.Parallel()
	const all = `server { listen PORT quic; return 200 any; }`
	const both = all + `server { listen OTHER quic; large_client_header_buffers 1 2k; return 200 other; }`
	s := serve(t, both)
	c, dialed := s.http3Client(nil)
	status := func(addr string) string {
		r, _ := http.NewRequest(http.MethodGet, "https://"+addr+"/", nil)
		r.Header.Set("X", strings.Repeat("~", 7000))
		resp := testkit.Value(c.Do(r))(t)
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.Status + " " + string(b)
	}
	testkit.Equal(t, status(s.addr), "200 OK any", "a head within the limit of all addresses")
	testkit.Contains(t, status(s.otherAddr()), "431 ", "a head over the limit of the address")
	before := len(dialed.String())
	s.reload(strings.Replace(both, "1 2k", "1 16k", 1))
	testkit.WaitFor(s, "another connection", func() bool {
		return status(s.otherAddr()) == "200 OK other" && len(dialed.String()) > before
	})
}

// An address that a reload has removed is closed, after its requests. It is served again, also while
// a connection of before is still open.
func TestRemovedAddressIsServedAgain(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	app := newWaiting()
	const both = `server { listen ADDR ssl; return 200 tcp; }
		server { listen ADDR quic; location / { return 200 udp; } location /app { proxy_pass http://app; } }`
	const one = `server { listen ADDR ssl; return 200 tcp; }`
	s := serve(t, both, server.Bind("app", app))
	c, _ := s.http3Client(nil)
	result := s.begin(c, app)
	for range 3 {
		s.reload(one)
		s.configure(both + " server { listen 192.0.2.1:1 quic; }")
		testkit.Error(t, s.run.Reload(), "", "an address of another machine was served")
		testkit.Equal(t, len(s.run.Addrs()), 1, "addresses after a failed reload")
		s.reload(both)
		again, _ := s.http3Client(nil)
		testkit.Equal(t, s.get(again, "/"), "udp")
	}
	s.reload(one)
	close(app.finish)
	testkit.Equal(t, <-result, "finished", "a request of before")
	testkit.WaitFor(s, "the end of the server", func() bool { return len(s.run.Addrs()) == 1 })
	testkit.Equal(t, s.isServed(), false, "the address is still served")
	testkit.WaitFor(s, "the address is free", func() bool {
		s.configure(both)
		return s.run.Reload() == nil
	})
	again, _ := s.http3Client(nil)
	testkit.Equal(t, s.get(again, "/"), "udp", "at the end")
}

// A server that is drained finishes its requests, and accepts no connection.
func TestDrainFinishesRequests(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	app := newWaiting()
	s := serve(t, `server { listen ADDR quic; location / { return 200 first; }
		location /app { proxy_pass http://app; } }`, server.Bind("app", app))
	c, _ := s.http3Client(nil)
	idle, _ := s.http3Client(nil)
	s.get(idle, "/")
	result := s.begin(c, app)
	s.run.Drain()
	testkit.WaitFor(s, "no new connections", func() bool { return !s.isServed() })
	close(app.finish)
	testkit.Equal(t, <-result, "finished", "a request during the drain")
	testkit.Check(t, <-s.ended)
}

// dial opens a connection without HTTP/3.
func (s *site) dial(o quic.Config) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config := clientTLS()
	config.NextProtos = []string{"h3"}
	return quic.DialAddr(ctx, s.addr, config, &o)
}

// isServed reports whether the address accepts a connection within a second.
func (s *site) isServed() bool {
	q, err := s.dial(quic.Config{HandshakeIdleTimeout: time.Second})
	if err == nil {
		_ = q.CloseWithError(0, "")
	}
	return err == nil
}

// With http3 off, and for other protocols, handshakes fail. A reload changes that.
func TestHandshakesFailWithoutHTTP3(t *testing.T) {
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; http3 off; return 200 first; }`)
	const noApplicationProtocol = 120 // RFC 8446, 6
	_, err := s.dial(quic.Config{})
	if e, ok := errors.AsType[*quic.TransportError](err); !ok || e.ErrorCode != 0x100+noApplicationProtocol {
		t.Errorf("http3 off: %v", err)
	}
	s.reload(`server { listen ADDR quic; return 200 second; }`)
	c, _ := s.http3Client(nil)
	testkit.Equal(t, s.get(c, "/"), "second")
}

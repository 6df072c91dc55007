package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// After Retire each connection serves one more request, whose response announces the end. No
// connection is closed before.
func TestRetireEndsConnectionsAfterOneResponse(t *testing.T) {
	everyMode(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }), func(s *site) {
		c := s.connect()
		in := bufio.NewReader(c)
		request := func(wantClose bool) {
			s.Helper()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: host\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			testkit.Must(s, err)
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
				resp.Close != wantClose {
				s.Errorf("%s, close %v, want %v, %v", resp.Status, resp.Close, wantClose, err)
			}
		}
		request(false)
		s.server.Retire()
		request(true)
		if _, err := in.ReadByte(); err != io.EOF {
			s.Errorf("got %v, want EOF", err)
		}
	})
}

// Over HTTP/2 GOAWAY announces the end, and concurrent requests use another connection.
func TestRetireSendsGOAWAY(t *testing.T) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	ports := make(chan string, 100)
	server := engine.New(&http.Server{Protocols: protocols,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ports <- r.RemoteAddr
		})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	request := func() string {
		resp, err := client.Get("http://" + l.Addr().String())
		testkit.Must(t, err)
		resp.Body.Close()
		return <-ports
	}
	first := request()
	if second := request(); second != first {
		t.Fatalf("another connection, %s after %s", second, first)
	}
	server.Retire()
	if last := request(); last != first {
		t.Errorf("the connection was closed: %s after %s", last, first)
	}
	testkit.WaitFor(t, "another connection", func() bool { return request() != first })
}

// Handlers can count the requests of their connection.
func TestRequestsOfConnectionAreCounted(t *testing.T) {
	began := time.Now()
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		info := connection.Of(context.WithValue(r.Context(), http.ServerContextKey, nil))
		if opened := info.Opened(); opened.Before(began.Add(-time.Second)) || time.Since(opened) < 0 {
			t.Errorf("opened at %v", opened)
		}
		fmt.Fprint(w, info.CountRequest())
	}), func(s *site) {
		for range 2 {
			c := s.connect()
			in := bufio.NewReader(c)
			for n := range 300 {
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: host\r\n\r\n")
				resp, err := http.ReadResponse(in, nil)
				testkit.Must(s, err)
				if b, _ := io.ReadAll(resp.Body); string(b) != fmt.Sprint(n+1) {
					s.Fatalf("request %d is counted as %s", n+1, b)
				}
			}
		}
	})
}

package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// headedListener is a listener whose connections begin with a byte of their own.
type headedListener struct{ net.Listener }

func (l headedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return headedConn{c}, nil
}

// headedConn is a connection.AboveSocket.
type headedConn struct{ net.Conn }

func (c headedConn) Socket(ctx context.Context, deadline time.Time) (net.Conn, context.Context, error) {
	_ = c.SetReadDeadline(deadline)
	var b [1]byte
	_, err := io.ReadFull(c.Conn, b[:])
	if b[0] != '!' && err == nil {
		err = errors.New("bad header")
	}
	_ = c.SetReadDeadline(time.Time{})
	return c.Conn, context.WithValue(ctx, headedConn{}, "of the header"), err
}

// startHeaded starts a server for connections with headers.
func startHeaded(t *testing.T, set *http.Server, secure bool) (s *engine.Server, dial func() net.Conn) {
	mode := "tcp"
	if secure {
		mode = "ServeTLS"
	}
	l, _ := modes[mode](t)
	address := l.Addr().String()
	if s, ok := l.(secureListener); ok {
		l = secureListener{headedListener{s.Listener}, s.config}
	} else {
		l = headedListener{l}
	}
	s = engine.New(set)
	served := goServe(s, l)
	t.Cleanup(func() { s.Close(); <-served })
	return s, func() net.Conn {
		c, err := net.Dial("tcp", address)
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
}

// awaitOpen waits until a server has n connections.
func awaitOpen(t *testing.T, s *engine.Server, n int64) {
	t.Helper()
	testkit.WaitFor(t, "connections to open or close", func() bool {
		_, open := s.Connections()
		return open == n
	})
}

// A connection is served once its header has arrived, together with a request or alone.
func TestConnectionsAreServedAfterTheirHeaders(t *testing.T) {
	s, dial := startHeaded(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Context().Value(headedConn{}); got != "of the header" {
			t.Errorf("the context has %v", got)
		}
		dump(w, r)
	})}, false)
	for _, pieces := range [][]string{{"!" + getOld}, {"!", getOld}, {"!" + getOld[:5], getOld[5:]}} {
		c := dial()
		waiting := dial() // delays nobody
		for _, p := range pieces {
			io.WriteString(c, p)
		}
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), `GET "/`) {
			t.Errorf("%q: response %q, %v", pieces, b, err)
		}
		waiting.Close()
	}
	c := dial()
	io.WriteString(c, "?"+getOld)
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("after a bad header: %q", b)
	}
	awaitOpen(t, s, 0)
}

// The handshake of TLS begins after the header.
func TestTLSBeginsAfterTheHeader(t *testing.T) {
	_, dial := startHeaded(t, &http.Server{Handler: http.HandlerFunc(dump)}, true)
	for range 3 {
		c := dial()
		io.WriteString(c, "!")
		tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		io.WriteString(tc, getOld)
		if b, err := io.ReadAll(tc); err != nil || !strings.Contains(string(b), `GET "/`) {
			t.Errorf("response %q, %v", b, err)
		}
	}
}

// A header must arrive within the timeout for a head. Close ends the wait for it, and Shutdown
// waits for the request.
func TestWaitForHeaderIsLimited(t *testing.T) {
	s, dial := startHeaded(t, &http.Server{ReadHeaderTimeout: 20 * time.Millisecond}, false)
	if b, err := io.ReadAll(dial()); err != nil || len(b) > 0 {
		t.Errorf("after the timeout: %q, %v", b, err)
	}
	awaitOpen(t, s, 0)

	s, dial = startHeaded(t, &http.Server{}, false)
	c := dial()
	awaitOpen(t, s, 1)
	s.Close()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("after Close: %q, %v", b, err)
	}
	awaitOpen(t, s, 0)

	s, dial = startHeaded(t, &http.Server{Handler: http.HandlerFunc(dump)}, false)
	c = dial()
	awaitOpen(t, s, 1)
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returns %v while a header is awaited", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	io.WriteString(c, "!"+get)
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "Connection: close") {
		t.Errorf("during Shutdown: %q, %v", b, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

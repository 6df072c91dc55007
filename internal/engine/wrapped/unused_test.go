package tare_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// unusedKinds are the ways to serve connections.
var unusedKinds = map[string]func(t *testing.T, s *tare.Server, l net.Listener) error{
	"shards":    func(_ *testing.T, s *tare.Server, l net.Listener) error { return s.Serve(l) },
	"goroutine": func(_ *testing.T, s *tare.Server, l net.Listener) error { return s.Serve(struct{ net.Listener }{l}) },
	"tls": func(t *testing.T, s *tare.Server, l net.Listener) error {
		borrowed := httptest.NewUnstartedServer(nil)
		borrowed.StartTLS()
		defer borrowed.Close()
		return s.Serve(tls.NewListener(l, &tls.Config{Certificates: borrowed.TLS.Certificates,
			NextProtos: []string{"h2", "http/1.1"}}))
	},
}

// A server that only closes its listener, without Shutdown, leaves nothing behind, as in net/http.
// Open connections are served until they end. The server can serve again.
func TestServerWithClosedListenerLeavesNothing(t *testing.T) {
	for kind, serve := range unusedKinds {
		t.Run(kind, func(t *testing.T) {
			goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
			s := tare.Wrap(&http.Server{Handler: textHandler("x"), TLSConfig: new(tls.Config)})
			for round := range 6 {
				l := listen(t)
				served := make(chan error, 1)
				go func() { served <- serve(t, s, l) }()
				switch {
				case round == 0: // no client connects
				case kind == "tls":
					transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
						ForceAttemptHTTP2: round%2 == 0}
					resp, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr().String())
					testkit.Must(t, err)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					endServing(t, l, served)
					transport.CloseIdleConnections()
				default:
					c, err := net.Dial("tcp", l.Addr().String())
					testkit.Must(t, err)
					r := bufio.NewReader(c)
					requestOnKeptConn(t, c, r) // it is still served
					endServing(t, l, served)
					requestOnKeptConn(t, c, r) // it is served still
					c.Close()
				}
				endServing(t, l, served)
			}
			awaitNothingLeft(t, goroutines, descriptors)
			s.Close()
			if err := serve(t, s, listen(t)); !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// endServing closes a listener, as code does that has no access to the server.
func endServing(t *testing.T, l net.Listener, served chan error) {
	t.Helper()
	if l.Close() != nil {
		return // Serve has returned
	}
	if err := <-served; err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
}

func requestOnKeptConn(t *testing.T, c net.Conn, r *bufio.Reader) {
	t.Helper()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	testkit.Must(t, err)
	io.Copy(io.Discard, resp.Body)
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	testkit.Must(t, err)
	return len(all)
}

func awaitNothingLeft(t *testing.T, goroutines, descriptors int) {
	t.Helper()
	testkit.WaitFor(t, "all goroutines and descriptors to go", func() bool {
		return runtime.NumGoroutine() <= goroutines && countDescriptors(t) <= descriptors
	})
}

// Shutdown and Close of the wrapped server reach connections that are open after the listener was
// closed. A server that is closed while nothing is served does not serve again.
func TestWrappedServerEndsConnectionsAfterListenerClosed(t *testing.T) {
	for kind, serve := range unusedKinds {
		if kind == "tls" {
			continue // its connections use the goroutine path
		}
		for name, end := range map[string]func(*http.Server) error{
			"Close":    (*http.Server).Close,
			"Shutdown": func(s *http.Server) error { return s.Shutdown(context.Background()) },
		} {
			inner := &http.Server{Handler: textHandler("x")}
			s := tare.Wrap(inner)
			l := listen(t)
			served := make(chan error, 1)
			go func() { served <- serve(t, s, l) }()
			c, err := net.Dial("tcp", l.Addr().String())
			testkit.Must(t, err)
			requestOnKeptConn(t, c, bufio.NewReader(c))
			endServing(t, l, served)
			if err := end(inner); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("%s leaves a connection open: %v", name, err)
			}
			if err := serve(t, s, listen(t)); !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("after %s: %v", name, err)
			}

			inner = &http.Server{Handler: textHandler("x")}
			s, l = tare.Wrap(inner), listen(t)
			go func() { served <- serve(t, s, l) }()
			endServing(t, l, served)
			if err := end(inner); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := serve(t, s, listen(t)); !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("after %s of what is not used: %v", name, err)
			}
		}
	}
}

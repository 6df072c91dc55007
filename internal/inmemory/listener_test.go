package inmemory_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/inmemory"
	"github.com/tarehq/tare/internal/testkit"
)

const request = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n"

// reader records the responses of a client.
type reader struct{ text bytes.Buffer }

func (r *reader) Write(p []byte) (int, error) { return r.text.Write(p) }

// serve makes net/http serve a load, and returns what its handler received.
func serve(t *testing.T, l *inmemory.Listener) (handled int, served uint64) {
	t.Helper()
	var mu sync.Mutex
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		handled++
		mu.Unlock()
		_, _ = io.WriteString(w, "fine")
	})}
	if err := server.Serve(l); !errors.Is(err, io.EOF) {
		t.Fatalf("Serve: %v, want EOF", err)
	}
	served, ok := l.Drain(10 * time.Second)
	if !ok {
		t.Fatal("connections are still open")
	}
	return handled, served
}

// A server receives each request of a total once, whatever the total, and each client receives all
// its responses.
func TestEachRequestIsServedOnce(t *testing.T) {
	for _, test := range []struct{ total, requests, clients int }{
		{1, 1, 1}, {1, 10, 100}, {7, 3, 2}, {1000, 10, 3}, {1000, 1, 1000}, {999, 10_000, 2},
	} {
		var readers []*reader
		l := inmemory.Listen(inmemory.Load{
			Request: []byte(request), Requests: test.requests, Clients: test.clients, Total: test.total,
			Responses: func() io.Writer {
				r := new(reader)
				readers = append(readers, r)
				return r
			},
		})
		handled, served := serve(t, l)
		responses := 0
		for _, r := range readers {
			responses += strings.Count(r.text.String(), "\r\n\r\nfine")
		}
		if handled != test.total || served != uint64(test.total) || responses != test.total ||
			len(readers) != test.clients {
			t.Errorf("%+v: %d handled, %d served, %d responses to %d clients", test, handled, served, responses,
				len(readers))
		}
	}
}

// A load with a time limit ends by itself, after requests that have begun.
func TestLoadEndsAfterItsTime(t *testing.T) {
	l := inmemory.Listen(inmemory.Load{Request: []byte(request), Requests: 1 << 30, Clients: 2,
		For: 10 * time.Millisecond})
	handled, served := serve(t, l)
	if handled == 0 || served != uint64(handled) {
		t.Errorf("%d handled and %d served", handled, served)
	}
}

// Closing the listener ends a load without limits.
func TestCloseEndsLoad(t *testing.T) {
	l := inmemory.Listen(inmemory.Load{Request: []byte(request), Requests: 1, Clients: 1})
	c, err := l.Accept()
	testkit.Must(t, err)
	waiting := make(chan error)
	go func() {
		_, err := l.Accept() // the only client is connected
		waiting <- err
	}()
	l.Close()
	testkit.Is(t, <-waiting, io.EOF, "Accept")
	if _, ok := l.Drain(time.Millisecond); ok {
		t.Error("drained while a connection is open")
	}
	c.Close()
	c.Close()
	if served, ok := l.Drain(time.Second); !ok || served != 0 {
		t.Errorf("drained: %v, %d requests of none that was read", ok, served)
	}
	var _ net.Listener = l
}
